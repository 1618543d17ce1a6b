"""The question-answering fleet at the moment, as lines for `torchlift status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from operations.account import Account
from settings import names

WORKLOAD = "question-answering"
TAG_JOB = "torchlift:job"


def fleet(account: Account, resources: list[dict[str, Any]]) -> Iterator[str]:
    """Where it answers, how many instances are in service of those wanted, and which the balancer finds unwell."""
    url = account.parameter(WORKLOAD, "url")
    if url is None:
        return
    yield f"Question answering at {url} (inside the VPC)"
    groups = [
        str(item["PhysicalResourceId"])
        for item in resources
        if item["ResourceType"] == "AWS::AutoScaling::AutoScalingGroup" and item.get("PhysicalResourceId")
    ]
    if not groups:
        return
    found = account.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=groups)
    for group in found["AutoScalingGroups"]:
        if {TAG_JOB: names.QUESTION_ANSWERING_FLEET}.items() <= _tags(group).items():
            yield _instances(group)
            for target_group in group.get("TargetGroupARNs", []):
                yield from _targets(account, target_group)


def _instances(group: dict[str, Any]) -> str:
    states = Counter(str(one["LifecycleState"]) for one in group.get("Instances", []))
    limits = f"{group['MinSize']} to {group['MaxSize']}"
    others = ", ".join(f"{count} {state}" for state, count in sorted(states.items()) if state != "InService")
    said = f"  instances: {states['InService']} in service of {group['DesiredCapacity']} wanted ({limits})"
    return f"{said}, {others}" if others else said


def _targets(account: Account, target_group: str) -> Iterator[str]:
    answer = account.client("elbv2").describe_target_health(TargetGroupArn=target_group)
    targets = answer["TargetHealthDescriptions"]
    states = Counter(str(one["TargetHealth"]["State"]) for one in targets)
    yield f"  behind the load balancer: {', '.join(f'{states[state]} {state}' for state in sorted(states)) or 'none'}"
    for one in targets:
        health = one["TargetHealth"]
        if health["State"] not in ("healthy", "draining"):
            why = " ".join(str(health.get("Description") or health.get("Reason") or "no reason given").split())
            yield f"    {one['Target']['Id']} {health['State']}: {why}"


def _tags(group: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in group.get("Tags", [])}
