"""What the loss of an instance, or a failed launch, means for an instance job."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import boto3

from torchlift.handlers._shared.results import result_exists
from torchlift.handlers.signal_job.verdict import Verdict

MAX_STARTS = 3
# A training's deadline is up to 11 of the wait condition's 12 hours: capacity must be found within the rest.
CAPACITY_PATIENCE = datetime.timedelta(minutes=50)
# What EC2 says when a zone is merely full: the group goes on to search its zones. Anything else (quota, permissions,
# a missing AMI) stays wrong however often it is tried.
CAPACITY_WORDS = (
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientCapacity",
    "insufficient capacity",
    "not have sufficient",
    "no Spot capacity",
    "SpotMaxPriceTooLow",
    "UnfulfillableCapacity",
    # Not every zone has every type; the group goes on to the next zone.
    "not supported in your requested Availability Zone",
    "RequestLimitExceeded",
    "InternalError",
)


def judge_instance(event: Mapping[str, Any], *, group: str, result: str) -> Verdict:
    """Return the verdict on an Auto Scaling event of ``group``; turn the group off when the job has failed.

    :param result: URI of the job's result
    """
    autoscaling: Any = boto3.client("autoscaling")
    groups = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    if not groups:
        return Verdict(ended=False, success=False, reason=f"group {group} is gone")
    if groups[0]["DesiredCapacity"] == 0:
        return _ended_itself(event, result)
    activities = _activities(autoscaling, groups[0])
    if event["detail-type"] == "EC2 Instance Launch Unsuccessful":
        verdict = _failed_launch(event["detail"], activities)
    else:
        verdict = _lost(event["detail"], activities)
    if verdict.ended:
        autoscaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=0, HonorCooldown=False)
    return verdict


def _ended_itself(event: Mapping[str, Any], result: str) -> Verdict:
    """Judge an instance that took itself out of the group, or an event that comes after the group was turned off.

    An earlier signal, if it arrived, stands. Nobody is told again: the instance's last line raises an alarm, and who
    turned the group off has told of it.
    """
    instance = event["detail"].get("EC2InstanceId", "unknown")
    if result_exists(result):
        return Verdict(ended=True, success=True, reason=f"instance {instance} published {result}")
    return Verdict(ended=True, success=False, reason=f"instance {instance} ended without a result", told=True)


def _lost(detail: Mapping[str, Any], activities: Sequence[Mapping[str, Any]]) -> Verdict:
    starts = sum(1 for activity in activities if _has_started(activity))
    what = f"instance {detail.get('EC2InstanceId', 'unknown')} was lost ({detail.get('Cause', 'no cause given')})"
    if starts >= MAX_STARTS:
        return Verdict(ended=True, success=False, reason=f"{starts} instances were started, and the last {what}")
    return Verdict(ended=False, success=False, reason=f"{what}; start {starts + 1} of {MAX_STARTS} resumes")


def _failed_launch(detail: Mapping[str, Any], activities: Sequence[Mapping[str, Any]]) -> Verdict:
    message = str(detail.get("StatusMessage") or "no reason given")
    if not any(word.lower() in message.lower() for word in CAPACITY_WORDS):
        return Verdict(ended=True, success=False, reason=f"no instance can be launched: {message}")
    # Since the last instance that did start: a training that is interrupted after hours deserves as long a search.
    started = max((activity["StartTime"] for activity in activities if _has_started(activity)), default=None)
    searching = [activity["StartTime"] for activity in activities if started is None or activity["StartTime"] > started]
    first = min(searching, default=None)
    if first is not None and datetime.datetime.now(tz=datetime.UTC) - first > CAPACITY_PATIENCE:
        minutes = int(CAPACITY_PATIENCE.total_seconds() // 60)
        return Verdict(ended=True, success=False, reason=f"no capacity in any zone for {minutes} minutes: {message}")
    return Verdict(ended=False, success=False, reason=f"no capacity yet: {message}")


def _activities(autoscaling: Any, group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return this group's activities, not those of an earlier group of the same name."""
    found: list[Mapping[str, Any]] = []
    pages = autoscaling.get_paginator("describe_scaling_activities").paginate(
        AutoScalingGroupName=group["AutoScalingGroupName"]
    )
    for page in pages:
        found.extend(page["Activities"])
    arn = group.get("AutoScalingGroupARN")
    return [activity for activity in found if activity.get("AutoScalingGroupARN") in (None, "", arn)]


def _has_started(activity: Mapping[str, Any]) -> bool:
    launch = str(activity.get("Description", "")).startswith("Launching a new EC2 instance")
    return launch and activity["StatusCode"] == "Successful"
