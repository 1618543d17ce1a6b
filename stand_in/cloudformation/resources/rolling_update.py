"""What CloudFormation does for a group beyond its API: waits for signals, and replaces instances batch by batch."""

from __future__ import annotations

import re
from typing import Any

from stand_in.cloudformation.registry import Context, Properties, ResourceFailed

DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?")


def seconds(duration: str) -> int:
    """Of an ISO 8601 duration such as PT35M; at most the hour that CloudFormation allows."""
    match = DURATION.fullmatch(duration)
    if match is None:
        raise ResourceFailed(f"{duration!r} is no duration")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    found = hours * 3600 + minutes * 60 + rest
    if found > 3600:
        raise ResourceFailed(f"{duration} is longer than an hour")
    return found


def await_creation(ctx: Context) -> None:
    """Wait for the signals of the CreationPolicy. Raises ResourceFailed."""
    wanted = ctx.creation_policy.get("ResourceSignal")
    if wanted:
        _await(ctx, count=int(wanted.get("Count", 1)), limit=seconds(str(wanted.get("Timeout", "PT5M"))))


def replace_instances(ctx: Context, group: str, new: Properties) -> None:
    """AutoScalingRollingUpdate, an instance at a time: one more, its signal, one of the old less.

    A failure takes the new one out again, and the group is as before.
    """
    policy = ctx.update_policy.get("AutoScalingRollingUpdate")
    if not policy:
        return
    client = ctx.client("autoscaling")
    size, before = _held(client, group)
    old = _outdated(ctx, before, new["LaunchTemplate"])
    least = int(policy.get("MinInstancesInService", 0))
    if least >= int(new["MaxSize"]):
        raise ResourceFailed("MinInstancesInService must be less than the autoscaling group's MaxSize")
    limit = seconds(str(policy.get("PauseTime", "PT5M")))
    for signalled, instance in enumerate(old, start=1):
        known = _held(client, group)[1]
        client.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=size + 1)
        fresh = [one for one in _held(client, group)[1] if one not in known]
        try:
            if policy.get("WaitOnResourceSignals"):
                _await(ctx, count=signalled, limit=limit)
        except ResourceFailed:
            _end(client, fresh[-1])
            raise
        _end(client, instance)


def _outdated(ctx: Context, instances: list[str], template: Properties) -> list[str]:
    """Those that another template made: a rollback leaves alone what was never replaced."""
    ec2 = ctx.client("ec2")
    found = ec2.describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"], Versions=[str(template["Version"])]
    )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    wanted = [found.get(name) for name in ("ImageId", "InstanceType", "UserData")]

    def made_of(instance: str) -> list[str | None]:
        held = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        data = ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]
        return [held["ImageId"], held["InstanceType"], data.get("Value")]

    return [instance for instance in instances if made_of(instance) != wanted]


def _held(client: Any, group: str) -> tuple[int, list[str]]:
    """(desired capacity, instance ids)"""
    found = client.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"][0]
    return found["DesiredCapacity"], [one["InstanceId"] for one in found["Instances"]]


def _end(client: Any, instance: str) -> None:
    client.terminate_instance_in_auto_scaling_group(InstanceId=instance, ShouldDecrementDesiredCapacity=True)


def _await(ctx: Context, *, count: int, limit: int) -> None:
    received = ctx.mailbox.wait(ctx.signals, count=count, seconds=limit, cancelled=ctx.cancelled)
    failed = [one for one in received if one.get("Status") == "FAILURE"]
    if failed:
        raise ResourceFailed(
            f"Received {len(failed)} FAILURE signal(s) out of {count}. Unable to satisfy 100% "
            f"MinSuccessfulInstancesPercent requirement ({failed[0].get('UniqueId')})"
        )
    if len(received) < count:
        if ctx.cancelled.is_set():
            raise ResourceFailed("cancelled")
        raise ResourceFailed(
            f"Failed to receive {count - len(received)} resource signal(s) within the specified duration"
        )
