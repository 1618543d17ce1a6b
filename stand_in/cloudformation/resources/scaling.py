"""Auto Scaling groups, and Application Auto Scaling of endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, register
from stand_in.cloudformation.resources.rolling_update import await_creation, replace_instances
from stand_in.cloudformation.shapes import pick, unless_gone


@register
class AutoScalingGroup(Resource):
    """A group of instances. Without DesiredCapacity the template leaves the capacity alone, as on AWS."""

    type_name = "AWS::AutoScaling::AutoScalingGroup"
    properties = frozenset(
        {
            "AutoScalingGroupName",
            "CapacityRebalance",
            "DefaultInstanceWarmup",
            "DesiredCapacity",
            "HealthCheckGracePeriod",
            "HealthCheckType",
            "LaunchTemplate",
            "MaxSize",
            "MetricsCollection",
            "MinSize",
            "Tags",
            "TargetGroupARNs",
            "VPCZoneIdentifier",
        }
    )
    replace_on = frozenset({"AutoScalingGroupName"})

    def with_tags(self, props: Properties, tags: Mapping[str, str]) -> Properties:
        """The stack's tags go on to the instances too."""
        tagged = super().with_tags(props, tags)
        if tagged is props:
            return props
        return {**tagged, "Tags": [{"PropagateAtLaunch": True, **tag} for tag in tagged["Tags"]]}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("AutoScalingGroupName") or ctx.generate_name(logical_id)
        tags = [{"ResourceId": name, "ResourceType": "auto-scaling-group", **tag} for tag in props.get("Tags", ())]
        client = ctx.client("autoscaling")
        client.create_auto_scaling_group(
            AutoScalingGroupName=name, Tags=tags, **pick(props, "TargetGroupARNs"), **self._api(props)
        )
        ctx.made(name)
        self._collect(client, name, props)
        await_creation(ctx)
        return Created(physical_id=name)

    @staticmethod
    def _collect(client: Any, name: str, props: Properties) -> None:
        for collected in props.get("MetricsCollection", ()):
            client.enable_metrics_collection(AutoScalingGroupName=name, **collected)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        client = ctx.client("autoscaling")
        client.update_auto_scaling_group(AutoScalingGroupName=physical_id, **self._api(new))
        self._collect(client, physical_id, new)
        for call, these, others in (
            (client.detach_load_balancer_target_groups, old, new),
            (client.attach_load_balancer_target_groups, new, old),
        ):
            arns = [arn for arn in these.get("TargetGroupARNs", ()) if arn not in others.get("TargetGroupARNs", ())]
            if arns:
                call(AutoScalingGroupName=physical_id, TargetGroupARNs=arns)

        def entries(props: Properties) -> list[dict[str, Any]]:
            kind = "auto-scaling-group"
            return [{"ResourceId": physical_id, "ResourceType": kind, **tag} for tag in props.get("Tags", ())]

        gone = [tag for tag in entries(old) if tag["Key"] not in {one["Key"] for one in entries(new)}]
        if gone:
            client.delete_tags(Tags=gone)
        if new.get("Tags"):
            client.create_or_update_tags(Tags=entries(new))
        if old.get("LaunchTemplate") != new.get("LaunchTemplate"):
            replace_instances(ctx, physical_id, new)
        return Created(physical_id=physical_id)

    @staticmethod
    def _api(props: Properties) -> dict[str, Any]:
        made = pick(props, "CapacityRebalance", "HealthCheckGracePeriod", "HealthCheckType", "LaunchTemplate")
        if "DefaultInstanceWarmup" in props:
            made["DefaultInstanceWarmup"] = int(props["DefaultInstanceWarmup"])
        for size in ("DesiredCapacity", "MaxSize", "MinSize"):
            if size in props:
                made[size] = int(props[size])
        if "VPCZoneIdentifier" in props:
            made["VPCZoneIdentifier"] = ",".join(props["VPCZoneIdentifier"])
        return made

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        client = ctx.client("autoscaling")
        held = client.describe_auto_scaling_groups(AutoScalingGroupNames=[physical_id])["AutoScalingGroups"]
        if held:
            # CloudFormation empties the group first, whatever runs in it.
            client.delete_auto_scaling_group(AutoScalingGroupName=physical_id, ForceDelete=True)

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("autoscaling")
        held = client.describe_auto_scaling_groups(AutoScalingGroupNames=[physical_id])["AutoScalingGroups"][0]
        template = held["LaunchTemplate"]
        return pick(
            held,
            "AutoScalingGroupName",
            "CapacityRebalance",
            "HealthCheckGracePeriod",
            "HealthCheckType",
            "TargetGroupARNs",
        ) | {
            "DesiredCapacity": str(held["DesiredCapacity"]),
            "LaunchTemplate": pick(template, "LaunchTemplateId", "Version"),
            "MaxSize": str(held["MaxSize"]),
            "MinSize": str(held["MinSize"]),
            "VPCZoneIdentifier": held["VPCZoneIdentifier"].split(","),
            "Tags": [pick(tag, "Key", "Value", "PropagateAtLaunch") for tag in held["Tags"]],
        }


@register
class ScalableTarget(Resource):
    """What may be scaled, and how far."""

    type_name = "AWS::ApplicationAutoScaling::ScalableTarget"
    properties = frozenset({"MaxCapacity", "MinCapacity", "ResourceId", "ScalableDimension", "ServiceNamespace"})
    replace_on = frozenset({"ResourceId", "ScalableDimension", "ServiceNamespace"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        self._variant_exists(ctx, props)
        ctx.client("application-autoscaling").register_scalable_target(**props)
        physical_id = "|".join(props[key] for key in ("ResourceId", "ScalableDimension", "ServiceNamespace"))
        return Created(physical_id=physical_id, attributes={"Id": physical_id})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ctx.client("application-autoscaling").register_scalable_target(**new)
        return Created(physical_id=physical_id, attributes={"Id": physical_id})

    @staticmethod
    def _variant_exists(ctx: Context, props: Properties) -> None:
        if props["ServiceNamespace"] != "sagemaker":
            return
        _, endpoint, _, variant = props["ResourceId"].split("/")
        sagemaker = ctx.client("sagemaker")
        held = unless_gone(lambda: sagemaker.describe_endpoint(EndpointName=endpoint), "ValidationException")
        if held is None or variant not in {one["VariantName"] for one in held.get("ProductionVariants", ())}:
            raise ResourceFailed(f"Endpoint or variant not found: {props['ResourceId']}")

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        client = ctx.client("application-autoscaling")
        arguments = pick(props, "ResourceId", "ScalableDimension", "ServiceNamespace")
        unless_gone(lambda: client.deregister_scalable_target(**arguments), "ValidationException")

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("application-autoscaling").describe_scalable_targets(
            ServiceNamespace=props["ServiceNamespace"],
            ResourceIds=[props["ResourceId"]],
            ScalableDimension=props["ScalableDimension"],
        )["ScalableTargets"][0]
        return {key: value for key, value in held.items() if key in self.properties}


@register
class ScalingPolicy(Resource):
    """When to scale a scalable target."""

    type_name = "AWS::ApplicationAutoScaling::ScalingPolicy"
    properties = frozenset({"PolicyName", "PolicyType", "ScalingTargetId", "TargetTrackingScalingPolicyConfiguration"})
    replace_on = frozenset({"PolicyName", "ScalingTargetId"})

    @staticmethod
    def _target(props: Properties) -> dict[str, str]:
        resource, dimension, namespace = props["ScalingTargetId"].split("|")
        return {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        arguments = {key: value for key, value in props.items() if key != "ScalingTargetId"}
        made = ctx.client("application-autoscaling").put_scaling_policy(**self._target(props), **arguments)
        return Created(physical_id=made["PolicyARN"], attributes={"Arn": made["PolicyARN"]})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        return self.create(ctx, "", new)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        client = ctx.client("application-autoscaling")
        unless_gone(
            lambda: client.delete_scaling_policy(PolicyName=props["PolicyName"], **self._target(props)),
            "ValidationException",
        )

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        target = self._target(props)
        held = ctx.client("application-autoscaling").describe_scaling_policies(
            PolicyNames=[props["PolicyName"]], **target
        )["ScalingPolicies"]
        one = next(policy for policy in held if policy["PolicyName"] == props["PolicyName"])
        target_id = f"{one['ResourceId']}|{one['ScalableDimension']}|{one['ServiceNamespace']}"
        return {key: value for key, value in one.items() if key in self.properties} | {"ScalingTargetId": target_id}
