"""What AWS refuses of endpoints, models and networks, and the stand-in with it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.stand_in.conftest import REGION, Stacks, eventually, refused
from tests.stand_in.functions import TRUST
from tests.stand_in.samples import ACCOUNT, IMAGE, att, ref

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"


def served(**changes: Any) -> dict[str, Any]:
    """An endpoint with one scaled variant, as far as a test does not say otherwise."""
    variant = {
        "InitialInstanceCount": 1, "InitialVariantWeight": 1, "InstanceType": changes.get("type", "ml.c7g.4xlarge"),
        "ModelName": att("Model", "ModelName"), "VariantName": changes.get("variant", "main"),
    }  # fmt: skip
    container = {"Image": changes.get("image", IMAGE), "Environment": {"MODE": changes.get("mode", "one")}}
    made: dict[str, Any] = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {"ExecutionRoleArn": att("Role"), "PrimaryContainer": container},
        },
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [variant]}},
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {"EndpointConfigName": att("Config", "EndpointConfigName")},
        },
    }
    made["Config"]["Properties"] |= changes.get("config", {})
    made["Endpoint"]["Properties"] |= changes.get("endpoint", {})
    made["Model"]["Properties"] |= changes.get("model", {})
    if changes.get("scaled"):
        made["Target"] = {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {
                "MaxCapacity": 4, "MinCapacity": 1, "ServiceNamespace": "sagemaker",
                "ResourceId": {"Fn::Sub": f"endpoint/${{Endpoint.EndpointName}}/variant/{changes['scaled']}"},
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            },
        }  # fmt: skip
    return made


def told(stacks: Stacks, name: str = "s") -> str:
    return str(stacks.api.describe_stack_events(StackName=stacks.name(name))["StackEvents"])


def canary(percent: int) -> dict[str, Any]:
    routing = {"Type": "CANARY", "WaitIntervalInSeconds": 0}
    routing["CanarySize"] = {"Type": "CAPACITY_PERCENT", "Value": percent}
    return {"DeploymentConfig": {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}}


@pytest.mark.parametrize("where", ["group", "rule"])
def test_a_description_that_ec2_refuses(stacks: Stacks, where: str) -> None:
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0", "Description": "fine"}
    group = {"GroupDescription": "fine", "VpcId": {"Ref": "Network"}, "SecurityGroupEgress": [rule]}
    if where == "group":
        group["GroupDescription"] = "the model's"
    else:
        rule["Description"] = "the model's"
    resources = {
        "Network": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16"}},
        "Group": {"Type": "AWS::EC2::SecurityGroup", "Properties": group},
    }
    assert stacks.create("s", resources) == "ROLLBACK_COMPLETE"
    assert "Invalid description" in stacks.reason("s", "Group")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"endpoint": canary(51)}, "more than 50 %"),
        (
            {
                "endpoint": {
                    "DeploymentConfig": {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "missing-alarm"}]}}
                }
            },
            "missing-alarm",
        ),
        ({"type": "ml.g5.xlarge", "config": {"KmsKeyId": "alias/x"}}, "local NVMe"),
        ({"type": "ml.imaginary.xlarge"}, "ml.imaginary.xlarge"),
        ({"scaled": "another"}, "variant not found"),
        ({"mode": "broken"}, "did not pass the ping health check"),
        ({"image": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/never-made:1"}, "never-made"),
    ],
)
def test_refused_at_creation(stacks: Stacks, changes: dict[str, Any], reason: str) -> None:
    assert stacks.create("s", served(**changes)) == "ROLLBACK_COMPLETE"
    assert reason in told(stacks)
    mine = [
        one["EndpointName"]
        for one in stacks.aws.client("sagemaker").list_endpoints()["Endpoints"]
        if stacks.unique in one["EndpointName"]
    ]
    assert mine == []


def test_half_the_fleet_is_a_canary(stacks: Stacks) -> None:
    assert stacks.create("s", served(endpoint=canary(50))) == "CREATE_COMPLETE"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"endpoint": canary(50)}, {"variant": "other", "endpoint": canary(50)}, "must keep their names"),
        ({"scaled": "main"}, {"scaled": "main", "type": "ml.c7g.8xlarge"}, "instance type ml.c7g.4xlarge"),
        ({"scaled": "main"}, {"variant": "other"}, "cannot be removed"),
        ({}, {"mode": "broken"}, "did not pass the ping health check"),
    ],
)
def test_refused_updates_leave_the_endpoint_as_it_was(
    stacks: Stacks, first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    sagemaker = stacks.aws.client("sagemaker")
    assert stacks.create("s", served(**first)) == "CREATE_COMPLETE"
    name = stacks.resources("s")["Endpoint"].rpartition("/")[2]
    before = sagemaker.describe_endpoint(EndpointName=name)
    assert stacks.update("s", served(**second)) == "UPDATE_ROLLBACK_COMPLETE"
    assert reason in told(stacks)
    after = sagemaker.describe_endpoint(EndpointName=name)
    assert after["EndpointStatus"] == "InService"
    assert after["EndpointConfigName"] == before["EndpointConfigName"]
    answer = stacks.aws.client("sagemaker-runtime").invoke_endpoint(EndpointName=name, Body=b"x")
    assert answer["Body"].read() == b"x"


def test_variants_may_be_renamed_without_guardrails(stacks: Stacks) -> None:
    assert stacks.create("s", served()) == "CREATE_COMPLETE"
    assert stacks.update("s", served(variant="other")) == "UPDATE_COMPLETE"


@pytest.mark.parametrize("media_type", [DOCKER, OCI])
def test_sagemaker_takes_dockers_manifests_only(stacks: Stacks, media_type: str) -> None:
    ecr, name = stacks.aws.client("ecr"), stacks.name("fake-serving").replace("-", "/", 1)
    ecr.create_repository(repositoryName=name)
    manifest = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": {"mediaType": "application/json", "size": 2, "digest": "sha256:" + "0" * 64},
        "layers": [],
    }
    image = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{name}:1"
    arguments = {"imageTag": "1", "imageManifest": json.dumps(manifest), "imageManifestMediaType": media_type}
    ecr.put_image(repositoryName=name, **arguments)
    resources = served(image=image)
    del resources["Endpoint"], resources["Config"]
    expected = "CREATE_COMPLETE" if media_type == DOCKER else "ROLLBACK_COMPLETE"
    assert stacks.create("s", resources) == expected
    assert (f"Unsupported manifest media type {OCI}" in told(stacks)) == (media_type == OCI)
    stacks.clean()
    ecr.delete_repository(repositoryName=name, force=True)


def test_model_data_must_be_there(stacks: Stacks) -> None:
    resources = served()
    del resources["Endpoint"], resources["Config"]
    resources["Model"]["Properties"]["PrimaryContainer"]["ModelDataUrl"] = f"s3://{stacks.name('none')}/model.tar.gz"
    assert stacks.create("s", resources) == "ROLLBACK_COMPLETE"
    assert "Could not find model data" in told(stacks)


def network() -> dict[str, Any]:
    return {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.8.0.0/16"}},
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"CidrBlock": "10.8.0.0/20", "VpcId": ref("Vpc")}},
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "for a test", "VpcId": ref("Vpc")},
        },
    }


def test_networks_stay_while_endpoints_are_in_them(stacks: Stacks) -> None:
    outputs = {name: {"Value": ref(name)} for name in ("Subnet", "Group")}
    stacks.create("network", network(), Outputs=outputs)
    ids = stacks.outputs("network")
    place = {"VpcConfig": {"SecurityGroupIds": [ids["Group"]], "Subnets": [ids["Subnet"]]}}
    assert stacks.create("s", served(model=place)) == "CREATE_COMPLETE"
    assert stacks.delete("network") == "DELETE_FAILED"
    assert "has a dependent object" in stacks.reason("network", "Group")
    assert "has dependencies" in stacks.reason("network", "Subnet")
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert stacks.delete("network") == "DELETE_COMPLETE"


def test_a_group_of_an_interface_stays(stacks: Stacks) -> None:
    stacks.create("network", network(), Outputs={name: {"Value": ref(name)} for name in ("Subnet", "Group")})
    ids, ec2 = stacks.outputs("network"), stacks.aws.client("ec2")
    eni = ec2.create_network_interface(SubnetId=ids["Subnet"], Groups=[ids["Group"]])["NetworkInterface"]
    assert "dependent object" in refused(lambda: ec2.delete_security_group(GroupId=ids["Group"]))
    ec2.delete_network_interface(NetworkInterfaceId=eni["NetworkInterfaceId"])


def test_a_slow_model_is_given_up_when_a_sibling_fails(stacks: Stacks) -> None:
    """What was begun is ended: neither the endpoint nor its server stays."""
    resources = copy.deepcopy(served(mode="slow"))
    resources["Wait"] = {
        "Type": "AWS::CloudFormation::WaitCondition", "DependsOn": "Config",
        "Properties": {"Handle": ref("Handle"), "Timeout": "1"},
    }  # fmt: skip
    resources["Handle"] = {"Type": "AWS::CloudFormation::WaitConditionHandle"}
    assert stacks.create("s", resources) == "ROLLBACK_COMPLETE"
    assert "Resource creation cancelled" in told(stacks)
    eventually(lambda: not stacks.aws.get("/_torchlift/state")["processes"])
