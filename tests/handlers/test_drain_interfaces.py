"""drain_interfaces: deletion waits until the group is empty, and fails in words when it does not get so."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.handlers.conftest import Context
from tests.handlers.events import request
from tests.support.receiver import Receiver
from torchlift.handlers.drain_interfaces import handler as drain_interfaces


@pytest.fixture
def group(aws: None) -> str:
    ec2: Any = boto3.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20")
    return str(ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc)["GroupId"])


def interfaces(group: str, count: int, description: str = "made by SageMaker") -> list[str]:
    ec2: Any = boto3.client("ec2")
    vpc = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["VpcId"]
    subnet = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"][0]["SubnetId"]
    return [
        ec2.create_network_interface(SubnetId=subnet, Groups=[group], Description=description)["NetworkInterface"][
            "NetworkInterfaceId"
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_only_deletion_waits(
    kind: str, group: str, receiver: Receiver, context: Context, no_pauses: list[float]
) -> None:
    interfaces(group, 1)
    drain_interfaces.handle(request(kind, receiver.url, SecurityGroupId=group), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS" and no_pauses == []


def test_an_empty_group_is_drained(group: str, receiver: Receiver, context: Context, no_pauses: list[float]) -> None:
    ec2: Any = boto3.client("ec2")
    vpc = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["VpcId"]
    other = ec2.create_security_group(GroupName="other", Description="d", VpcId=vpc)["GroupId"]
    subnet = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"][0]["SubnetId"]
    ec2.create_network_interface(SubnetId=subnet, Groups=[other])
    drain_interfaces.handle(request("Delete", receiver.url, SecurityGroupId=group), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS" and no_pauses == []


def test_a_group_that_is_gone_is_drained(aws: None, receiver: Receiver, context: Context) -> None:
    drain_interfaces.handle(request("Delete", receiver.url, SecurityGroupId="sg-0123456789abcdef0"), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS"


def test_deletion_waits_until_the_last_interface_is_gone(
    group: str, receiver: Receiver, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2: Any = boto3.client("ec2")
    left, pauses = interfaces(group, 8), []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        assert receiver.bodies == []
        ec2.delete_network_interface(NetworkInterfaceId=left.pop())

    monkeypatch.setattr("time.sleep", sleep)
    drain_interfaces.handle(request("Delete", receiver.url, SecurityGroupId=group), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS" and left == []
    assert pauses == sorted(pauses) and len(pauses) == 8
    assert pauses[0] == drain_interfaces.FIRST_PAUSE_S and pauses[-1] == drain_interfaces.LONGEST_PAUSE_S


def test_out_of_time_names_group_and_interfaces(
    group: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time passes with the pauses only; what is kept back for the answer is never slept away."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now)
    left = interfaces(group, 30, description="x" * 200)
    drain_interfaces.handle(
        request("Delete", receiver.url, SecurityGroupId=group), Context(remaining_ms=15 * 60 * 1000)
    )
    (body,) = receiver.bodies
    assert body["Status"] == "FAILED"
    assert 0 < 15 * 60 - drain_interfaces.RESERVE_S - now <= drain_interfaces.LONGEST_PAUSE_S
    reason = str(body["Reason"])
    assert group in reason and "and 25 more" in reason and "delete the stack again" in reason
    assert sum(one in reason for one in left) == drain_interfaces.NAMED
    assert len(reason) < 1000 and reason.endswith(".")


def test_a_refusal_of_ec2_is_told(
    group: str, receiver: Receiver, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(service: str) -> Any:
        raise PermissionError("ec2:DescribeNetworkInterfaces")

    monkeypatch.setattr("boto3.client", refuse)
    drain_interfaces.handle(request("Delete", receiver.url, SecurityGroupId=group), context)
    assert receiver.bodies[0]["Status"] == "FAILED"
    assert receiver.bodies[0]["Reason"].endswith("PermissionError: ec2:DescribeNetworkInterfaces")
