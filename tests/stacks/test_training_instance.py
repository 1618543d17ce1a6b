"""The training machine: what EC2 needs, what it refuses, and what nobody may reach."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.stacks.synthesis import Resource, Synthesized

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")


def launch_data(assembly: Synthesized, containing: str = "Train") -> dict[str, Any]:
    data: dict[str, Any] = assembly.one("AWS::EC2::LaunchTemplate", containing=containing)["LaunchTemplateData"]
    return data


def test_p4d(dev: Synthesized, prod: Synthesized) -> None:
    for assembly in (dev, prod):
        assert launch_data(assembly)["InstanceType"] == "p4d.24xlarge"


def test_root_volume_is_large_and_encrypted_with_the_accounts_own_key(deployment: Synthesized) -> None:
    """The scaling service's role may not use a customer key: a launch with one would fail."""
    (mapping,) = launch_data(deployment)["BlockDeviceMappings"]
    assert mapping["DeviceName"] == "/dev/sda1"  # what the Ubuntu images call their root
    ebs = mapping["Ebs"]
    assert ebs["VolumeType"] == "gp3"
    assert ebs["VolumeSize"] >= 200
    assert ebs["Encrypted"] is True
    assert ebs["DeleteOnTermination"] is True
    assert "KmsKeyId" not in ebs


def test_metadata_only_by_token_and_reachable_from_a_container(deployment: Synthesized) -> None:
    assert launch_data(deployment)["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 2,
    }


def test_no_public_address_no_key_and_no_open_port(deployment: Synthesized) -> None:
    data = launch_data(deployment)
    (interface,) = data["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is False
    assert "KeyName" not in data
    group = deployment.one("AWS::EC2::SecurityGroup", "Training")
    assert "SecurityGroupIngress" not in group
    assert not deployment.resources("AWS::EC2::SecurityGroupIngress", "Training", "Graviton")
    assert [(rule["FromPort"], rule["ToPort"]) for rule in group["SecurityGroupEgress"]] == [(443, 443)]


def test_the_image_is_resolved_by_ec2_so_that_the_template_never_drifts(deployment: Synthesized) -> None:
    image = launch_data(deployment)["ImageId"]
    assert image.startswith("resolve:ssm:/aws/service/")
    assert "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>" not in json.dumps(deployment.templates["Training"])


def test_group_is_off_until_started_and_ends_by_itself(deployment: Synthesized) -> None:
    group = deployment.one("AWS::AutoScaling::AutoScalingGroup")
    assert (group["MinSize"], group["MaxSize"]) == ("0", "1")
    # CloudFormation would set it back on every update.
    assert "DesiredCapacity" not in group
    assert group["LaunchTemplate"]["Version"] == "1"
    assert len(group["VPCZoneIdentifier"]) == 3
    assert launch_data(deployment)["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_the_instance_knows_its_group_and_its_deadline(deployment: Synthesized) -> None:
    group = deployment.one("AWS::AutoScaling::AutoScalingGroup")["AutoScalingGroupName"]
    text = json.dumps(launch_data(deployment)["UserData"])
    assert f"TORCHLIFT_GROUP={group}" in text
    assert "TORCHLIFT_DEADLINE_SECONDS=21600" in text


def test_tags_say_whose_and_what_but_not_who_owns_it(deployment: Synthesized) -> None:
    for specification in launch_data(deployment)["TagSpecifications"]:
        tags = {tag["Key"]: tag["Value"] for tag in specification["Tags"]}
        assert {"torchlift:deployment", "torchlift:job", "torchlift:workload"} <= set(tags)
        assert "torchlift:owner" not in tags
        assert tags["torchlift:job"] == "sentiment-train"


def test_spot(synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("dev", {"training.purchase": "spot"})
    market = launch_data(made)["InstanceMarketOptions"]
    assert market["MarketType"] == "spot"
    # Anything else cannot be in an Auto Scaling group.
    assert market["SpotOptions"] == {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    # A rebalance recommendation would end a healthy instance.
    assert "CapacityRebalance" not in made.one("AWS::AutoScaling::AutoScalingGroup")


RESERVED = {"training.capacity_reservation_id": "cr-0123456789abcdef0", "training.zones": ["us-west-2b"]}


@pytest.mark.parametrize("mode", ["job", "interactive"])
def test_capacity_block(synthesize: Callable[..., Synthesized], mode: str) -> None:
    made = synthesize("dev", {**RESERVED, "training.purchase": "capacity-block", "training.mode": mode})
    for name in ("Train", "Box")[: 1 + (mode == "interactive")]:
        data = launch_data(made, name)
        assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
        # A block is a targeted reservation: only a launch that names it uses it.
        assert data["CapacityReservationSpecification"] == {
            "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
        }


def test_reservation_on_demand(synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("dev", RESERVED)
    data, group = launch_data(made), made.one("AWS::AutoScaling::AutoScalingGroup")
    # EC2 takes a preference or a target, not both; with a target it never falls back to ordinary capacity.
    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
    }
    assert "InstanceMarketOptions" not in data
    # Without one of its own the group leaves it to the launch template.
    assert "CapacityReservationSpecification" not in group
    assert len(group["VPCZoneIdentifier"]) == 1


def test_some_zones_only(synthesize: Callable[..., Synthesized]) -> None:
    group = synthesize("dev", {"training.zones": ["us-west-2b"]}).one("AWS::AutoScaling::AutoScalingGroup")
    assert len(group["VPCZoneIdentifier"]) == 1
    assert "PrivateB" in json.dumps(group["VPCZoneIdentifier"])


def test_pinned_image(synthesize: Callable[..., Synthesized]) -> None:
    changes = {"training.ami_parameter": None, "training.ami_id": "ami-0123456789abcdef0"}
    assert launch_data(synthesize("dev", changes))["ImageId"] == "ami-0123456789abcdef0"


@pytest.fixture
def interactive(synthesize: Callable[..., Synthesized]) -> Synthesized:
    return synthesize("dev", {"training.mode": "interactive"})


def test_interactive_adds_one_box(interactive: Synthesized, dev: Synthesized) -> None:
    box = interactive.one("AWS::EC2::Instance")
    assert box["LaunchTemplate"]["Version"] == "1"
    data = launch_data(interactive, "Box")
    assert data["InstanceType"] == "p4d.24xlarge"
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    # A developer's shutdown must not delete the work.
    assert "InstanceInitiatedShutdownBehavior" not in data
    assert len(data["NetworkInterfaces"][0]["SubnetId"]) == 1
    groups = interactive.resources("AWS::EC2::SecurityGroup", "Training").values()
    assert all("SecurityGroupIngress" not in item["Properties"] for item in groups)
    assert not dev.resources("AWS::EC2::Instance")


def test_the_box_learns_by_parameter_what_the_job_trains(interactive: Synthesized, dev: Synthesized) -> None:
    parameter = interactive.one("AWS::SSM::Parameter", "Training", containing="Box")
    assert "get-parameter" in json.dumps(launch_data(interactive, "Box")["UserData"])
    assert parameter["Name"] in json.dumps(launch_data(interactive, "Box")["UserData"])
    value, job = json.dumps(parameter["Value"]), json.dumps(launch_data(interactive)["UserData"])
    for line in (r"TORCHLIFT_COMMAND='[^']+'", r"TORCHLIFT_INPUTS=[^']*'?[^']*", r"TORCHLIFT_DATA=[^\\]+"):
        found = re.search(line, value)
        assert found and found[0] in job, line
    policy = interactive.one("AWS::IAM::Policy", "Training", containing="Box")["PolicyDocument"]["Statement"]
    (reads,) = [item for item in policy if item["Action"] == "ssm:GetParameter"]
    assert json.dumps(reads["Resource"]).endswith(f':parameter{parameter["Name"]}"]]}}')
    written = [item["Resource"] for item in policy if "s3:PutObject" in item["Action"]]
    assert [re.findall(r"/([\w/]+)/\*", json.dumps(item)) for item in written] == [["boxes", "tmp/boxes"]]


def test_the_box_is_named_by_an_output(interactive: Synthesized, dev: Synthesized) -> None:
    (name,) = interactive.resources("AWS::EC2::Instance")
    assert interactive.templates["Training"]["Outputs"]["InteractiveInstanceId"] == {"Value": {"Ref": name}}
    assert "InteractiveInstanceId" not in dev.templates["Training"]["Outputs"]


def test_the_box_starts_after_the_job_because_of_the_quota(interactive: Synthesized) -> None:
    (box,) = interactive.resources("AWS::EC2::Instance").values()
    assert [name for name in box["DependsOn"] if name.startswith("Train") and "SignalDone" in name]


def test_the_box_survives_other_hyperparameters(
    interactive: Synthesized, synthesize: Callable[..., Synthesized]
) -> None:
    """Its disk holds somebody's work."""
    other = synthesize("dev", {"training.mode": "interactive", "training.learning_rate": 2e-5})

    def box(assembly: Synthesized) -> dict[str, Resource]:
        kinds = ("AWS::EC2::Instance", "AWS::EC2::LaunchTemplate")
        found = {name: item["Properties"] for kind in kinds for name, item in assembly.resources(kind).items()}
        return {name: item for name, item in found.items() if name.startswith("Box")}

    assert len(box(other)) == 2
    assert box(other) == box(interactive)


@pytest.fixture
def skipped(synthesize: Callable[..., Synthesized]) -> Synthesized:
    changes = {
        "training.mode": "skip",
        "training.weights_uri": "s3://their-bucket/roberta/",
        "training.base_model": None,
        "training.data": None,
    }
    return synthesize("dev", changes)


def test_skip_trains_nothing(skipped: Synthesized) -> None:
    assert {item["Type"] for item in skipped.templates["Training"]["Resources"].values()} == {"AWS::SSM::Parameter"}
    assert skipped.one("AWS::SSM::Parameter", "Training")["Value"] == "s3://their-bucket/roberta/"


def test_skip_serves_the_weights_that_were_brought(skipped: Synthesized) -> None:
    start = skipped.one("Custom::StartJob", "Graviton", containing="Package")
    assert start["Environment"]["TORCHLIFT_INPUTS"] == "weights=plain+s3://their-bucket/roberta/"
    policy = json.dumps(skipped.one("AWS::IAM::Policy", "Graviton", containing="Package"))
    assert "s3:::their-bucket/roberta/*" in policy


def test_earlier_weights_of_ours_are_verified_when_they_come_back(synthesize: Callable[..., Synthesized]) -> None:
    uri = "s3://their-bucket/weights/sentiment/0123456789abcdef/"
    changes = {
        "training.mode": "skip",
        "training.weights_uri": uri,
        "training.base_model": None,
        "training.data": None,
    }
    start = synthesize("dev", changes).one("Custom::StartJob", "Graviton", containing="Package")
    assert start["Environment"]["TORCHLIFT_INPUTS"] == f"weights={uri}"
