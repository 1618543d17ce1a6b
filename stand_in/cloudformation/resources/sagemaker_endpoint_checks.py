"""What SageMaker refuses of an endpoint's deployment configuration and of its updates."""

from __future__ import annotations

from typing import Any

from stand_in.cloudformation.registry import Context, Properties, Refused

MOST_ALARMS = 10
"""API reference, AutoRollbackConfig."""
SIZES = {"CANARY": ("CanarySize", 1, 50), "LINEAR": ("LinearStepSize", 10, 50)}
"""By routing type: what gives the size of a part, and its bounds in percent of a variant's instances."""
SECONDS = {
    "MaximumExecutionTimeoutInSeconds": (600, 28_800),
    "TerminationWaitInSeconds": (0, 3_600),
    "WaitIntervalInSeconds": (0, 3_600),
}
"""Bounds (API reference, BlueGreenUpdatePolicy and TrafficRoutingConfig)."""


def check_deployment(ctx: Context, props: Properties) -> None:
    """Raise Refused for a DeploymentConfig that no endpoint may have."""
    deployment = props.get("DeploymentConfig", {})
    policy = deployment.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    for name, value in {**policy, **routing}.items():
        if name in SECONDS and not SECONDS[name][0] <= int(value) <= SECONDS[name][1]:
            raise Refused(f"{name} {value} is not from {SECONDS[name][0]} to {SECONDS[name][1]}")
    waits = int(policy.get("TerminationWaitInSeconds", 0)) + int(routing.get("WaitIntervalInSeconds", 0))
    longest = policy.get("MaximumExecutionTimeoutInSeconds")
    if longest is not None and int(longest) <= waits:
        raise Refused(f"MaximumExecutionTimeoutInSeconds {longest} is not more than the waits of {waits} s")
    if routing.get("Type") in SIZES:
        name, least, most = SIZES[routing["Type"]]
        if name not in routing:
            raise Refused(f"Traffic routing of type {routing['Type']} needs a {name}")
        size = routing[name]
        if size["Type"] == "CAPACITY_PERCENT" and not least <= int(size["Value"]) <= most:
            wrong = f"more than {most} %" if int(size["Value"]) > most else f"less than {least} %"
            raise Refused(f"{name} {size['Value']} % is {wrong} of the variant's capacity")
    alarms = [alarm["AlarmName"] for alarm in deployment.get("AutoRollbackConfiguration", {}).get("Alarms", ())]
    if len(alarms) > MOST_ALARMS:
        raise Refused(f"AutoRollbackConfiguration has {len(alarms)} alarms; {MOST_ALARMS} is the most")
    if alarms:
        held = ctx.client("cloudwatch").describe_alarms(AlarmNames=alarms)["MetricAlarms"]
        missing = sorted(set(alarms) - {alarm["AlarmName"] for alarm in held})
        if missing:
            raise Refused(f"Alarms of the auto rollback configuration do not exist: {', '.join(missing)}")


def check_update(ctx: Context, held: dict[str, Any], new: Properties) -> None:
    """Raise Refused for variants that may not change so, and for parts that a variant's fleet cannot have.

    :param held: what DescribeEndpoint answers
    """
    sagemaker = ctx.client("sagemaker")

    def variants(name: str) -> dict[str, dict[str, Any]]:
        config = sagemaker.describe_endpoint_config(EndpointConfigName=name)
        return {one["VariantName"]: one for one in config["ProductionVariants"]}

    before, after = variants(held["EndpointConfigName"]), variants(new["EndpointConfigName"])
    if "DeploymentConfig" in new and set(before) != set(after):
        raise Refused("With DeploymentConfig the variants must keep their names")
    targets = ctx.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    scaled = {target["ResourceId"] for target in targets["ScalableTargets"]}
    for variant, old in before.items():
        registered = f"endpoint/{held['EndpointName']}/variant/{variant}" in scaled
        if registered and after.get(variant, {}).get("InstanceType") != old["InstanceType"]:
            raise Refused(
                f"Variant {variant} is registered as a scalable target: it cannot be removed and its instance "
                f"type {old['InstanceType']} cannot change"
            )
    _check_parts(held, after, new)


def _check_parts(held: dict[str, Any], after: dict[str, dict[str, Any]], new: Properties) -> None:
    """A part is at least one instance and at most half of them: a variant with one instance cannot give any."""
    policy = new.get("DeploymentConfig", {}).get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    if routing.get("Type") not in SIZES:
        return
    parameter = SIZES[routing["Type"]][0]
    size = routing[parameter]
    part = int(size["Value"]) if size["Type"] == "INSTANCE_COUNT" else 1
    excluded = {one["VariantPropertyType"] for one in new.get("ExcludeRetainedVariantProperties", ())}
    retained = new.get("RetainAllVariantProperties") and "DesiredInstanceCount" not in excluded
    live = {one["VariantName"]: one.get("DesiredInstanceCount") for one in held["ProductionVariants"]}
    for name, variant in after.items():
        count = live.get(name) if retained else variant.get("InitialInstanceCount")
        if count is not None and 2 * part > count:
            raise Refused(f"{parameter} of variant {name} is at least {part} of {count} instances: more than 50 %")
