"""What AWS refuses of endpoints, models and networks, and the stand-in with it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.stand_in.conftest import REGION, Stacks
from tests.stand_in.endpoints import served
from tests.stand_in.samples import ACCOUNT, IMAGE, ref
from tests.support.waiting import eventually

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"


def told(stacks: Stacks, name: str = "s") -> str:
    return str(stacks.api.describe_stack_events(StackName=stacks.name(name))["StackEvents"])


def routed(kind: str, *, wait: int = 0, policy: dict[str, Any] | None = None, **sizes: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": wait, **sizes}
    return {"DeploymentConfig": {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, **(policy or {})}}}


def canary(percent: int, **more: Any) -> dict[str, Any]:
    return routed("CANARY", CanarySize={"Type": "CAPACITY_PERCENT", "Value": percent}, **more)


def linear(percent: int) -> dict[str, Any]:
    return routed("LINEAR", LinearStepSize={"Type": "CAPACITY_PERCENT", "Value": percent})


def watched(count: int) -> dict[str, Any]:
    alarms = [{"AlarmName": f"missing-alarm-{number}"} for number in range(count)]
    return {"DeploymentConfig": {"AutoRollbackConfiguration": {"Alarms": alarms}}}


CAPTURE = {
    "EnableCapture": True, "InitialSamplingPercentage": 10, "DestinationS3Uri": "s3://b/c",
    "CaptureOptions": [{"CaptureMode": "Input"}],
}  # fmt: skip
MULTI_MODEL = {"PrimaryContainer": {"Image": IMAGE, "Mode": "MultiModel", "ModelDataUrl": "s3://b/models/"}}
RETAINED = {"RetainAllVariantProperties": True}


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
        ({"endpoint": linear(9)}, "less than 10 %"),
        ({"endpoint": linear(51)}, "more than 50 %"),
        ({"endpoint": routed("CANARY")}, "needs a CanarySize"),
        ({"endpoint": canary(50, wait=3601)}, "WaitIntervalInSeconds 3601"),
        ({"endpoint": canary(50, policy={"TerminationWaitInSeconds": 3601})}, "TerminationWaitInSeconds 3601"),
        ({"endpoint": canary(50, policy={"MaximumExecutionTimeoutInSeconds": 599})}, "from 600 to 28800"),
        ({"endpoint": canary(50, policy={"MaximumExecutionTimeoutInSeconds": 28801})}, "from 600 to 28800"),
        (
            {"endpoint": canary(50, wait=700, policy={"MaximumExecutionTimeoutInSeconds": 700})},
            "not more than the waits of 700 s",
        ),
        ({"endpoint": watched(1)}, "missing-alarm"),
        ({"endpoint": watched(11)}, "10 is the most"),
        ({"model": MULTI_MODEL, "config": {"DataCaptureConfig": CAPTURE}}, "multi-model"),
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
        ({}, {"mode": "two", "endpoint": canary(50)}, "at least 1 of 1 instances"),
        ({}, {"mode": "two", "endpoint": linear(10)}, "at least 1 of 1 instances"),
        # What the fleet has counts, where it is retained, and what the configuration says, where it is not.
        ({}, {"mode": "two", "count": 2, "endpoint": canary(50) | RETAINED}, "at least 1 of 1 instances"),
        (
            {"count": 2},
            {
                "mode": "two",
                "count": 2,
                "endpoint": routed("CANARY", CanarySize={"Type": "INSTANCE_COUNT", "Value": 2}),
            },
            "at least 2 of 2 instances",
        ),
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


@pytest.mark.parametrize("how", [canary(50), linear(10), canary(50) | RETAINED])
def test_two_instances_are_enough_for_parts(stacks: Stacks, how: dict[str, Any]) -> None:
    assert stacks.create("s", served(count=2)) == "CREATE_COMPLETE"
    assert stacks.update("s", served(mode="two", count=2, endpoint=how)) == "UPDATE_COMPLETE", told(stacks)


def test_an_alarm_undoes_an_update_and_only_the_endpoint_says_so(stacks: Stacks) -> None:
    cloudwatch, sagemaker = stacks.aws.client("cloudwatch"), stacks.aws.client("sagemaker")
    alarm = stacks.name("errors")
    cloudwatch.put_metric_alarm(
        AlarmName=alarm, MetricName="m", Namespace="n", Statistic="Sum", Period=60, EvaluationPeriods=1, Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )  # fmt: skip
    how = {"DeploymentConfig": {**canary(50)["DeploymentConfig"]}}
    how["DeploymentConfig"]["AutoRollbackConfiguration"] = {"Alarms": [{"AlarmName": alarm}]}
    assert stacks.create("s", served(count=2, endpoint=how)) == "CREATE_COMPLETE"
    name = stacks.resources("s")["Endpoint"].rpartition("/")[2]
    before = sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"]
    cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="a test says so")
    changed = served(mode="two", count=2, endpoint=how)
    # So that the stack has a new configuration, as ours have.
    changed["Config"]["Properties"]["DataCaptureConfig"] = CAPTURE
    assert stacks.update("s", changed) == "UPDATE_COMPLETE"
    held = sagemaker.describe_endpoint(EndpointName=name)
    assert (held["EndpointStatus"], held["EndpointConfigName"]) == ("InService", before)
    assert alarm in held["FailureReason"]
    cloudwatch.delete_alarms(AlarmNames=[alarm])


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
