"""Custom::DrainInterfaces: on deletion, waits until a security group has no network interfaces any more.

SageMaker removes an endpoint's interfaces minutes after DeleteEndpoint has answered, with the execution role: until
then group and subnets cannot be deleted, and without the role the interfaces would stay for ever.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import boto3

from torchlift.handlers._shared.cfn_response import answering

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 20.0
# Kept back for the answer to CloudFormation.
RESERVE_S = 60.0
NAMED = 5
"""How many interfaces a failure names: the reason has to stay below 1 kB."""


class NotDrained(Exception):
    """Interfaces are left at the deadline; the message is for the user."""


def handle(event: Mapping[str, Any], context: Any) -> None:
    """Answer one request of CloudFormation; only deletion waits."""
    with answering(event, task="look for interfaces", told=NotDrained):
        if event["RequestType"] == "Delete":
            deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - RESERVE_S
            drain(event["ResourceProperties"]["SecurityGroupId"], deadline=deadline)


def drain(group_id: str, *, deadline: float) -> None:
    """Return when no interface is in the group; a group that is gone has none.

    All interfaces count, whoever made them: the group is the endpoint's alone, and AWS documents no mark of those that
    SageMaker makes.

    :param deadline: on the monotonic clock
    :raises NotDrained: interfaces are still there
    """
    pause = FIRST_PAUSE_S
    while interfaces := _interfaces(group_id):
        if time.monotonic() + pause > deadline:
            raise NotDrained(_left(group_id, interfaces))
        print(f"{len(interfaces)} interfaces in {group_id}: again in {pause:.0f} s")
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE_S)


def _interfaces(group_id: str) -> list[dict[str, Any]]:
    ec2: Any = boto3.client("ec2")
    pages = ec2.get_paginator("describe_network_interfaces").paginate(
        Filters=[{"Name": "group-id", "Values": [group_id]}]
    )
    return [interface for page in pages for interface in page["NetworkInterfaces"]]


def _left(group_id: str, interfaces: Sequence[Mapping[str, Any]]) -> str:
    named = [f"{one['NetworkInterfaceId']} ({one.get('Description', '')[:60]})" for one in interfaces[:NAMED]]
    more = f" and {len(interfaces) - NAMED} more" if len(interfaces) > NAMED else ""
    return (
        f"Security group {group_id} still has the network interfaces {', '.join(named)}{more}. SageMaker removes an "
        "endpoint's interfaces within minutes: delete the stack again. Any that stay belong to something else in the "
        "group."
    )
