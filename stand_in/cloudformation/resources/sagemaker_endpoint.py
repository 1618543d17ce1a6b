"""SageMaker: endpoints, and what may not be done to them."""

from __future__ import annotations

import time
from typing import Any

from stand_in.cloudformation.registry import (
    Context,
    Created,
    Properties,
    Refused,
    Resource,
    ResourceFailed,
    changed,
    register,
)
from stand_in.cloudformation.resources.sagemaker import change_tags, gone
from stand_in.cloudformation.shapes import own_tags

POLL_SECONDS = 0.25
LONGEST_CREATION_SECONDS = 3_600


@register
class Endpoint(Resource):
    """An endpoint; complete when it is in service."""

    type_name = "AWS::SageMaker::Endpoint"
    properties = frozenset(
        {
            "DeploymentConfig",
            "EndpointConfigName",
            "EndpointName",
            "ExcludeRetainedVariantProperties",
            "RetainAllVariantProperties",
            "Tags",
        }
    )
    replace_on = frozenset({"EndpointName"})
    _how = ("DeploymentConfig", "ExcludeRetainedVariantProperties", "RetainAllVariantProperties")

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("EndpointName") or ctx.generate_name(logical_id)[-63:].lstrip("-")
        self._check_guardrails(ctx, props)
        # The two switches are no part of CreateEndpoint: they say how an update goes.
        api = {key: value for key, value in props.items() if key not in self._how[1:]} | {"EndpointName": name}
        arn = ctx.client("sagemaker").create_endpoint(**api)["EndpointArn"]
        ctx.made(arn)
        self._wait(ctx, name)
        return Created(physical_id=arn, attributes={"EndpointName": name})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        name = physical_id.rpartition("/")[2]
        client = ctx.client("sagemaker")
        self._check_guardrails(ctx, new)
        self._check_variants(ctx, client.describe_endpoint(EndpointName=name), new)
        differing = changed(old, new) & {"EndpointConfigName", *self._how}
        # A failed update left the endpoint as it was: the rollback finds nothing to do.
        there = client.describe_endpoint(EndpointName=name)["EndpointConfigName"] == new["EndpointConfigName"]
        if differing and not (there and differing == {"EndpointConfigName"}):
            how = {key: new[key] for key in self._how if key in new}
            config = {"EndpointConfigName": new["EndpointConfigName"]}
            client.update_endpoint(EndpointName=name, **config, **how)
            self._wait(ctx, name)
            held = client.describe_endpoint(EndpointName=name)["EndpointConfigName"]
            if held != new["EndpointConfigName"]:
                reason = client.describe_endpoint(EndpointName=name).get("FailureReason", "it was rolled back")
                raise ResourceFailed(f"The endpoint kept its configuration {held}: {reason}")
        change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes={"EndpointName": name})

    @staticmethod
    def _wait(ctx: Context, name: str) -> None:
        client = ctx.client("sagemaker")
        deadline = time.monotonic() + LONGEST_CREATION_SECONDS
        while time.monotonic() < deadline:
            held = client.describe_endpoint(EndpointName=name)
            if held["EndpointStatus"] == "InService":
                return
            if held["EndpointStatus"] == "Failed":
                raise ResourceFailed(f"Endpoint {name} failed: {held.get('FailureReason', 'no reason given')}")
            if ctx.cancelled.is_set():
                raise ResourceFailed("cancelled")
            time.sleep(POLL_SECONDS)
        raise ResourceFailed(f"Endpoint {name} is not in service after {LONGEST_CREATION_SECONDS} s")

    @staticmethod
    def _check_guardrails(ctx: Context, props: Properties) -> None:
        """A canary is at most half of the fleet; rollback alarms must exist."""
        deployment = props.get("DeploymentConfig", {})
        routing = deployment.get("BlueGreenUpdatePolicy", {}).get("TrafficRoutingConfiguration", {})
        canary = routing.get("CanarySize", {})
        if canary.get("Type") == "CAPACITY_PERCENT" and int(canary["Value"]) > 50:
            raise Refused(f"CanarySize {canary['Value']} % is more than 50 % of the variant's capacity")
        alarms = [alarm["AlarmName"] for alarm in deployment.get("AutoRollbackConfiguration", {}).get("Alarms", ())]
        if alarms:
            held = ctx.client("cloudwatch").describe_alarms(AlarmNames=alarms)["MetricAlarms"]
            missing = sorted(set(alarms) - {alarm["AlarmName"] for alarm in held})
            if missing:
                raise Refused(f"Alarms of the auto rollback configuration do not exist: {', '.join(missing)}")

    @staticmethod
    def _check_variants(ctx: Context, held: dict[str, Any], new: Properties) -> None:
        """What UpdateEndpoint refuses of registered variants and, with a deployment configuration, of names."""
        sagemaker = ctx.client("sagemaker")

        def variants(name: str) -> dict[str, str]:
            config = sagemaker.describe_endpoint_config(EndpointConfigName=name)
            return {one["VariantName"]: one["InstanceType"] for one in config["ProductionVariants"]}

        before, after = variants(held["EndpointConfigName"]), variants(new["EndpointConfigName"])
        if "DeploymentConfig" in new and set(before) != set(after):
            raise Refused("With DeploymentConfig the variants must keep their names")
        targets = ctx.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
        scaled = {target["ResourceId"] for target in targets["ScalableTargets"]}
        for variant, instance_type in before.items():
            registered = f"endpoint/{held['EndpointName']}/variant/{variant}" in scaled
            if registered and after.get(variant) != instance_type:
                raise Refused(
                    f"Variant {variant} is registered as a scalable target: it cannot be removed and its instance "
                    f"type {instance_type} cannot change"
                )

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        name = physical_id.rpartition("/")[2]
        gone(lambda: ctx.client("sagemaker").delete_endpoint(EndpointName=name))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("sagemaker")
        held = client.describe_endpoint(EndpointName=physical_id.rpartition("/")[2])
        found = {key: value for key, value in held.items() if key in self.properties}
        if "LastDeploymentConfig" in held:
            found["DeploymentConfig"] = held["LastDeploymentConfig"]
        return found | {"Tags": own_tags(client.list_tags(ResourceArn=physical_id)["Tags"])}
