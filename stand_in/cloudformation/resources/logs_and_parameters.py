"""CloudWatch Logs, Systems Manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import (
    lower_camel,
    own_tags,
    pick,
    tag_changes,
    tag_map,
    unless_gone,
    upper_camel,
)


@register
class LogGroup(Resource):
    """A log group. One that exists already is refused, as on AWS."""

    type_name = "AWS::Logs::LogGroup"
    properties = frozenset({"KmsKeyId", "LogGroupName", "RetentionInDays", "Tags"})
    replace_on = frozenset({"LogGroupName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        logs = ctx.client("logs")
        name = props.get("LogGroupName") or ctx.generate_name(logical_id)
        more = {"kmsKeyId": props["KmsKeyId"]} if "KmsKeyId" in props else {}
        if props.get("Tags"):
            more["tags"] = tag_map(props)
        logs.create_log_group(logGroupName=name, **more)
        ctx.made(name)
        self._retain(ctx, name, props)
        return Created(physical_id=name, attributes=self._attributes(ctx, name))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        logs = ctx.client("logs")
        self._retain(ctx, physical_id, new)
        if "RetentionInDays" in old and "RetentionInDays" not in new:
            logs.delete_retention_policy(logGroupName=physical_id)
        arn = self._attributes(ctx, physical_id)["Arn"].removesuffix(":*")
        gone, _ = tag_changes(old, new)
        if gone:
            logs.untag_resource(resourceArn=arn, tagKeys=gone)
        if "KmsKeyId" in new:
            logs.associate_kms_key(logGroupName=physical_id, kmsKeyId=new["KmsKeyId"])
        elif "KmsKeyId" in old:
            logs.disassociate_kms_key(logGroupName=physical_id)
        if new.get("Tags"):
            logs.tag_resource(resourceArn=arn, tags=tag_map(new))
        return Created(physical_id=physical_id, attributes=self._attributes(ctx, physical_id))

    @staticmethod
    def _retain(ctx: Context, name: str, props: Properties) -> None:
        if "RetentionInDays" in props:
            ctx.client("logs").put_retention_policy(logGroupName=name, retentionInDays=int(props["RetentionInDays"]))

    @staticmethod
    def _attributes(ctx: Context, name: str) -> dict[str, Any]:
        return {"Arn": f"arn:aws:logs:{ctx.region}:{ctx.account}:log-group:{name}:*"}

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("logs").delete_log_group(logGroupName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        logs = ctx.client("logs")
        groups = logs.describe_log_groups(logGroupNamePrefix=physical_id)["logGroups"]
        held = next(group for group in groups if group["logGroupName"] == physical_id)
        tags = logs.list_tags_for_resource(resourceArn=held["arn"].removesuffix(":*"))["tags"]
        return {
            "LogGroupName": held["logGroupName"],
            "RetentionInDays": held.get("retentionInDays"),
            "KmsKeyId": held.get("kmsKeyId"),
            "Tags": own_tags({"Key": key, "Value": value} for key, value in tags.items()),
        }


@register
class MetricFilter(Resource):
    """Turns lines of a log group into a metric."""

    type_name = "AWS::Logs::MetricFilter"
    properties = frozenset({"FilterName", "FilterPattern", "LogGroupName", "MetricTransformations"})
    replace_on = frozenset({"FilterName", "LogGroupName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("FilterName") or ctx.generate_name(logical_id)
        return self._put(ctx, name, props)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        # moto's PutMetricFilter adds a second one under the same name.
        self.delete(ctx, physical_id, old)
        return self._put(ctx, physical_id, new)

    @staticmethod
    def _put(ctx: Context, name: str, props: Properties) -> Created:
        transformations = []
        for one in props["MetricTransformations"]:
            wanted = lower_camel({key: value for key, value in one.items() if key != "Dimensions"})
            if "Dimensions" in one:
                # A list of names and values in templates, a dictionary in the API.
                wanted["dimensions"] = {each["Key"]: each["Value"] for each in one["Dimensions"]}
            transformations.append(wanted)
        ctx.client("logs").put_metric_filter(
            filterName=name,
            filterPattern=props["FilterPattern"],
            logGroupName=props["LogGroupName"],
            metricTransformations=transformations,
        )
        return Created(physical_id=name)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        group = props["LogGroupName"]
        unless_gone(lambda: ctx.client("logs").delete_metric_filter(filterName=physical_id, logGroupName=group))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        found = ctx.client("logs").describe_metric_filters(
            filterNamePrefix=physical_id, logGroupName=props["LogGroupName"]
        )["metricFilters"]
        held = next(one for one in found if one["filterName"] == physical_id)
        transformations = []
        for one in held["metricTransformations"]:
            shown = upper_camel({key: value for key, value in one.items() if key != "dimensions"})
            if "dimensions" in one:
                shown["Dimensions"] = [{"Key": key, "Value": value} for key, value in one["dimensions"].items()]
            transformations.append(shown)
        return {
            "FilterName": held["filterName"],
            "FilterPattern": held["filterPattern"],
            "LogGroupName": held["logGroupName"],
            "MetricTransformations": transformations,
        }


@register
class Parameter(Resource):
    """A parameter of Systems Manager."""

    type_name = "AWS::SSM::Parameter"
    properties = frozenset({"Description", "Name", "Tags", "Type", "Value"})
    replace_on = frozenset({"Name"})

    def with_tags(self, props: Properties, tags: Mapping[str, str]) -> Properties:
        """This type's tags are a dictionary."""
        return {**props, "Tags": {**tags, **(props.get("Tags") or {})}} if tags else props

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("Name") or ctx.generate_name(logical_id)
        tags = [{"Key": key, "Value": value} for key, value in (props.get("Tags") or {}).items()]
        ctx.client("ssm").put_parameter(Name=name, **pick(props, "Description", "Type", "Value"), Tags=tags)
        return Created(physical_id=name, attributes=pick(props, "Type", "Value"))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ssm = ctx.client("ssm")
        ssm.put_parameter(Name=physical_id, Overwrite=True, **pick(new, "Description", "Type", "Value"))
        self._retag(ssm, physical_id, old.get("Tags") or {}, new.get("Tags") or {})
        return Created(physical_id=physical_id, attributes=pick(new, "Type", "Value"))

    @staticmethod
    def _retag(ssm: Any, name: str, old: dict[str, str], new: dict[str, str]) -> None:
        if set(old) - set(new):
            ssm.remove_tags_from_resource(
                ResourceType="Parameter", ResourceId=name, TagKeys=sorted(set(old) - set(new))
            )
        if new:
            tags = [{"Key": key, "Value": value} for key, value in new.items()]
            ssm.add_tags_to_resource(ResourceType="Parameter", ResourceId=name, Tags=tags)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ssm").delete_parameter(Name=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        ssm = ctx.client("ssm")
        held = ssm.get_parameter(Name=physical_id)["Parameter"]
        described = ssm.describe_parameters(ParameterFilters=[{"Key": "Name", "Values": [physical_id]}])["Parameters"][
            0
        ]
        tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=physical_id)["TagList"]
        return (
            pick(held, "Name", "Type", "Value")
            | pick(described, "Description")
            | {"Tags": {tag["Key"]: tag["Value"] for tag in tags}}
        )
