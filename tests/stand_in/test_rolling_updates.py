"""Groups whose instances signal: creation waits, an update replaces one by one, a failure puts everything back."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from stand_in.session import StandIn
from tests.stand_in.conftest import Stacks
from tests.stand_in.samples import Resources, ref


@pytest.fixture
def stacks(aws: StandIn) -> Iterator[Stacks]:
    made = Stacks(aws)
    yield made
    made.clean()


def template(text: str, unique: str, *, timeout: str = "PT1M") -> Resources:
    """A group of one instance whose user data is `text`."""
    data = {"ImageId": "ami-12c6146b", "InstanceType": "t3.micro", "UserData": base64.b64encode(text.encode()).decode()}
    name = f"Template{text}"
    return {
        name: {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}},
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.7.0.0/16"}},
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"CidrBlock": "10.7.0.0/20", "VpcId": ref("Vpc")}},
        "Fleet": {
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {
                "AutoScalingGroupName": f"rolling-{unique}", "MaxSize": "2", "MinSize": "1",
                "LaunchTemplate": {"LaunchTemplateId": ref(name), "Version": "1"},
                "VPCZoneIdentifier": [ref("Subnet")],
            },
            "CreationPolicy": {"ResourceSignal": {"Count": 1, "Timeout": timeout}},
            "UpdatePolicy": {
                "AutoScalingRollingUpdate": {
                    "MaxBatchSize": 1, "MinInstancesInService": 1, "PauseTime": timeout, "WaitOnResourceSignals": True
                }
            },
        },
    }  # fmt: skip


class Hosts:
    """Signals for every new instance of the group, as its user data says: `good` or another word."""

    def __init__(self, stacks: Stacks, group: str) -> None:
        self._stacks, self._group = stacks, group
        self._end = threading.Event()
        self.most = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Hosts:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def instances(self) -> list[str]:
        client = self._stacks.aws.client("autoscaling")
        found = client.describe_auto_scaling_groups(AutoScalingGroupNames=[self._group])["AutoScalingGroups"]
        return [one["InstanceId"] for group in found for one in group["Instances"]]

    def word(self, instance: str) -> str:
        ec2 = self._stacks.aws.client("ec2")
        data = ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]["Value"]
        return base64.b64decode(data).decode()

    def _watch(self) -> None:
        seen: set[str] = set()
        while not self._end.wait(0.05):
            there = self.instances()
            self.most = max(self.most, len(there))
            for instance in [one for one in there if one not in seen]:
                seen.add(instance)
                self._signal(instance, "SUCCESS" if self.word(instance).startswith("good") else "FAILURE")

    def _signal(self, instance: str, status: str) -> None:
        self._stacks.api.signal_resource(
            StackName=self._stacks.name("fleet"), LogicalResourceId="Fleet", UniqueId=instance, Status=status
        )


def reasons(stacks: Stacks) -> str:
    events = stacks.api.describe_stack_events(StackName=stacks.name("fleet"))["StackEvents"]
    return " | ".join(str(one.get("ResourceStatusReason")) for one in events if "FAILED" in one["ResourceStatus"])


def test_a_group_is_made_when_its_instances_have_signalled_and_updated_one_by_one(stacks: Stacks) -> None:
    group = f"rolling-{stacks.unique}"
    with Hosts(stacks, group) as hosts:
        assert stacks.create("fleet", template("good1", stacks.unique)) == "CREATE_COMPLETE"
        (first,) = hosts.instances()
        assert stacks.update("fleet", template("good2", stacks.unique)) == "UPDATE_COMPLETE"
        (second,) = hosts.instances()
        assert (first != second, hosts.word(second), hosts.most) == (True, "good2", 2), "one more, before one less"
        # What fails goes again; what ran, runs on, and is not started anew.
        assert stacks.update("fleet", template("bad", stacks.unique)) == "UPDATE_ROLLBACK_COMPLETE"
        assert "Received 1 FAILURE signal(s) out of 1" in reasons(stacks)
        assert hosts.instances() == [second]
    with pytest.raises(ClientError, match="is in UPDATE_ROLLBACK_COMPLETE state and cannot be signaled"):
        hosts._signal("i-late", "SUCCESS")
    assert stacks.delete("fleet") == "DELETE_COMPLETE"
    assert hosts.instances() == []


def test_a_group_whose_instances_fail_is_not_made(stacks: Stacks) -> None:
    with Hosts(stacks, f"rolling-{stacks.unique}") as hosts:
        assert stacks.create("fleet", template("bad", stacks.unique)) == "ROLLBACK_COMPLETE"
        assert "Received 1 FAILURE signal(s) out of 1" in reasons(stacks)
        assert hosts.instances() == []


def test_silence_is_a_failure(stacks: Stacks) -> None:
    assert stacks.create("fleet", template("good", stacks.unique, timeout="PT1S")) == "ROLLBACK_COMPLETE"
    assert "Failed to receive 1 resource signal(s)" in reasons(stacks)


@pytest.mark.parametrize("timeout", ["PT2H", "an hour"])
def test_durations_that_cloudformation_does_not_take(stacks: Stacks, timeout: str) -> None:
    assert stacks.create("fleet", template("good", stacks.unique, timeout=timeout)) == "ROLLBACK_COMPLETE"
    assert timeout in reasons(stacks)
