"""Scaling policies of Auto Scaling groups."""

from __future__ import annotations

from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import pick, unless_gone

NAMES = ("AutoScalingGroupName", "EstimatedInstanceWarmup", "PolicyType", "TargetTrackingConfiguration")


@register
class GroupScalingPolicy(Resource):
    """When a group grows and shrinks."""

    type_name = "AWS::AutoScaling::ScalingPolicy"
    properties = frozenset(NAMES)
    replace_on = frozenset({"AutoScalingGroupName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        return self._put(ctx, ctx.generate_name(logical_id), props)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        return self._put(ctx, physical_id.rpartition("policyName/")[2], new)

    @staticmethod
    def _put(ctx: Context, name: str, props: Properties) -> Created:
        values: dict[str, Any] = pick(props, "AutoScalingGroupName", "PolicyType", "TargetTrackingConfiguration")
        if "EstimatedInstanceWarmup" in props:
            values["EstimatedInstanceWarmup"] = int(props["EstimatedInstanceWarmup"])
        client = ctx.client("autoscaling")
        client.put_scaling_policy(PolicyName=name, **values)  # moto's answer is empty
        arn = client.describe_policies(PolicyNames=[name])["ScalingPolicies"][0]["PolicyARN"]
        return Created(physical_id=arn, attributes={"Arn": arn, "PolicyName": name})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        client = ctx.client("autoscaling")
        unless_gone(
            lambda: client.delete_policy(PolicyName=physical_id.rpartition("policyName/")[2]), "ValidationError"
        )

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("autoscaling")
        found = client.describe_policies(AutoScalingGroupName=props["AutoScalingGroupName"])["ScalingPolicies"]
        name = physical_id.rpartition("policyName/")[2]
        return pick(next(one for one in found if one["PolicyName"] == name), *NAMES)
