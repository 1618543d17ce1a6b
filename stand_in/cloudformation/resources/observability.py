"""CloudWatch: alarms and dashboards."""

from __future__ import annotations

import json

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import document, own_tags, tag_changes, unless_gone


@register
class Alarm(Resource):
    """An alarm on one metric."""

    type_name = "AWS::CloudWatch::Alarm"
    properties = frozenset(
        {
            "AlarmActions",
            "AlarmDescription",
            "AlarmName",
            "ComparisonOperator",
            "DatapointsToAlarm",
            "Dimensions",
            "EvaluationPeriods",
            "ExtendedStatistic",
            "MetricName",
            "Namespace",
            "OKActions",
            "Period",
            "Statistic",
            "Tags",
            "Threshold",
            "TreatMissingData",
        }
    )
    replace_on = frozenset({"AlarmName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        return self._put(ctx, props.get("AlarmName") or ctx.generate_name(logical_id), props)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        made = self._put(ctx, physical_id, new)
        gone, tags = tag_changes(old, new)
        # PutMetricAlarm leaves the tags of an alarm that exists alone.
        ctx.client("cloudwatch").untag_resource(ResourceARN=made.attributes["Arn"], TagKeys=gone)
        ctx.client("cloudwatch").tag_resource(ResourceARN=made.attributes["Arn"], Tags=tags)
        return made

    @staticmethod
    def _put(ctx: Context, name: str, props: Properties) -> Created:
        client = ctx.client("cloudwatch")
        client.put_metric_alarm(**(props | {"AlarmName": name}))
        arn = client.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["AlarmArn"]
        return Created(physical_id=name, attributes={"Arn": arn})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("cloudwatch").delete_alarms(AlarmNames=[physical_id]))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("cloudwatch")
        held = client.describe_alarms(AlarmNames=[physical_id])["MetricAlarms"][0]
        tags = client.list_tags_for_resource(ResourceARN=held["AlarmArn"])["Tags"]
        return {key: value for key, value in held.items() if key in self.properties} | {"Tags": own_tags(tags)}


@register
class Dashboard(Resource):
    """A dashboard."""

    type_name = "AWS::CloudWatch::Dashboard"
    properties = frozenset({"DashboardBody", "DashboardName"})
    replace_on = frozenset({"DashboardName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("DashboardName") or ctx.generate_name(logical_id)
        ctx.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=document(props["DashboardBody"]))
        return Created(physical_id=name)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        return self.create(ctx, "", new | {"DashboardName": physical_id})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id]))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("cloudwatch").get_dashboard(DashboardName=physical_id)
        return {"DashboardName": held["DashboardName"], "DashboardBody": json.loads(held["DashboardBody"])}
