"""CloudWatch: alarms and dashboards."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import document, own_tags, tag_changes, unless_gone


class AnyAlarm(Resource):
    """What alarms on metrics and alarms on alarms have in common."""

    replace_on = frozenset({"AlarmName"})
    call: ClassVar[str]
    """The method of the API's client that makes and changes one."""
    held_under: ClassVar[str]
    """Where DescribeAlarms lists it; its `AlarmTypes` are the same word without the plural."""

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        return self._put(ctx, props.get("AlarmName") or ctx.generate_name(logical_id), props)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        made = self._put(ctx, physical_id, new)
        gone, tags = tag_changes(old, new)
        # Neither of the two calls touches the tags of an alarm that exists.
        ctx.client("cloudwatch").untag_resource(ResourceARN=made.attributes["Arn"], TagKeys=gone)
        ctx.client("cloudwatch").tag_resource(ResourceARN=made.attributes["Arn"], Tags=tags)
        return made

    def _put(self, ctx: Context, name: str, props: Properties) -> Created:
        getattr(ctx.client("cloudwatch"), self.call)(**(props | {"AlarmName": name}))
        return Created(physical_id=name, attributes={"Arn": self._held(ctx, name)["AlarmArn"]})

    def _held(self, ctx: Context, name: str) -> dict[str, Any]:
        answer = ctx.client("cloudwatch").describe_alarms(
            AlarmNames=[name], AlarmTypes=[self.held_under.removesuffix("s")]
        )
        held: dict[str, Any] = answer[self.held_under][0]
        return held

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("cloudwatch").delete_alarms(AlarmNames=[physical_id]))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = self._held(ctx, physical_id)
        tags = ctx.client("cloudwatch").list_tags_for_resource(ResourceARN=held["AlarmArn"])["Tags"]
        return {key: value for key, value in held.items() if key in self.properties} | {"Tags": own_tags(tags)}


@register
class Alarm(AnyAlarm):
    """An alarm on one metric, or on an expression over several."""

    type_name = "AWS::CloudWatch::Alarm"
    properties = frozenset(
        {
            "ActionsEnabled",
            "AlarmActions",
            "AlarmDescription",
            "AlarmName",
            "ComparisonOperator",
            "DatapointsToAlarm",
            "Dimensions",
            "EvaluateLowSampleCountPercentile",
            "EvaluationPeriods",
            "ExtendedStatistic",
            "InsufficientDataActions",
            "MetricName",
            "Metrics",
            "Namespace",
            "OKActions",
            "Period",
            "Statistic",
            "Tags",
            "Threshold",
            "TreatMissingData",
            "Unit",
        }
    )
    call, held_under = "put_metric_alarm", "MetricAlarms"


@register
class CompositeAlarm(AnyAlarm):
    """An alarm on the states of other alarms."""

    type_name = "AWS::CloudWatch::CompositeAlarm"
    properties = frozenset(
        {
            "ActionsEnabled",
            "AlarmActions",
            "AlarmDescription",
            "AlarmName",
            "AlarmRule",
            "InsufficientDataActions",
            "OKActions",
            "Tags",
        }
    )
    call, held_under = "put_composite_alarm", "CompositeAlarms"


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
