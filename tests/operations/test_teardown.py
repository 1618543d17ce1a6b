"""Teardown: who is asked, what is tried twice, and what is found to be left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.client import BaseClient

from operations.account import Account
from operations.cli import main
from operations.teardown import cdk, commands
from operations.teardown.audit import audit
from settings import load_settings, names
from tests.operations.deployed import client

pytestmark = pytest.mark.usefixtures("account")


def stack(deployment: str, kind: str = "Foundation") -> str:
    """A stack that keeps one topic of two."""
    template = {
        "Resources": {
            "Kept": {"Type": "AWS::SNS::Topic", "DeletionPolicy": "RetainExceptOnCreate"},
            "Gone": {"Type": "AWS::SNS::Topic"},
        }
    }
    name = names.stack_name(deployment, kind)
    client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))
    return name


@pytest.fixture
def destroyed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Calls of the CDK CLI, which deletes the stacks."""
    calls: list[str] = []

    def destroy(deployment: str) -> int:
        calls.append(deployment)
        for found in Account(load_settings(deployment)).stacks():
            client("cloudformation").delete_stack(StackName=found["StackName"])
        return 0

    monkeypatch.setattr(cdk, "destroy", destroy)
    yield calls


def left(deployment: str = "dev") -> dict[str, tuple[bool, str, str]]:
    return {item.what: (item.expected, item.reason, item.remove) for item in audit(Account(load_settings(deployment)))}


def test_a_dry_run_names_what_stays_and_touches_nothing(
    destroyed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name = stack("dev")
    assert main(["teardown", "dev", "--dry-run"]) == 0
    stays = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Stays")]
    assert len(stays) == 1 and "AWS::SNS::Topic" in stays[0] and "Kept" in stays[0]
    assert not destroyed and name in json.dumps(Account(load_settings("dev")).stacks(), default=str)


def test_a_first_deploy_under_way_can_be_stopped(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack("dev")
    under_way = [
        {"LogicalResourceId": "Kept", "ResourceType": "AWS::SNS::Topic", "ResourceStatus": "CREATE_IN_PROGRESS"}
    ]
    monkeypatch.setattr(Account, "resources", lambda *_: under_way)
    assert main(["teardown", "dev", "--yes"]) == 0
    assert destroyed == ["dev"] and "Stays" not in capsys.readouterr().out


def test_it_asks_and_then_destroys(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack("dev")
    stack("dev-2")
    monkeypatch.setattr("builtins.input", lambda *_: "")
    assert main(["teardown", "dev"]) == 1
    assert not destroyed and "nothing was touched" in capsys.readouterr().err
    assert main(["teardown", "dev", "--yes"]) == 0
    assert destroyed == ["dev"] and "Nothing is left" in capsys.readouterr().out
    assert len(client("cloudformation").describe_stacks()["Stacks"]) == 1, "dev-2 is another deployment"


def test_a_protected_deployment_needs_its_name_typed(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = stack("prod")
    protected = {name}
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        """Moto knows no termination protection."""
        if operation == "UpdateTerminationProtection":
            assert kwargs["EnableTerminationProtection"] is False
            return protected.discard(kwargs["StackName"])
        answer = real(self, operation, kwargs)
        if operation == "DescribeStacks":
            for found in answer["Stacks"]:
                found["EnableTerminationProtection"] = found["StackName"] in protected
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    assert main(["teardown", "prod", "--yes"]) == 1
    assert "--unprotect" in capsys.readouterr().err
    monkeypatch.setattr("builtins.input", lambda *_: "dev")
    assert main(["teardown", "prod", "--unprotect", "--yes"]) == 1
    assert not destroyed and protected
    monkeypatch.setattr("builtins.input", lambda *_: "prod")
    assert main(["teardown", "prod", "--unprotect"]) == 0
    assert destroyed == ["prod"] and not protected


def test_it_tries_once_more_when_interfaces_hold_something(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack("dev")
    results, answers = [1, 0], [["sg-1 is held by eni-1: SageMaker"], ["still"], []]
    monkeypatch.setattr(cdk, "destroy", lambda _: results.pop(0))
    monkeypatch.setattr(cdk, "holders", lambda _: answers.pop(0))
    monkeypatch.setattr(commands, "WAIT_SECONDS", 0)
    assert main(["teardown", "dev", "--yes"]) == 0
    assert not results and "sg-1 is held by eni-1" in capsys.readouterr().out


def test_a_failure_that_nothing_holds_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stack("dev")
    calls: list[str] = []

    def destroy(deployment: str) -> int:
        calls.append(deployment)
        return 1

    monkeypatch.setattr(cdk, "destroy", destroy)
    assert main(["teardown", "dev", "--yes"]) == 1
    assert calls == ["dev"]


def test_the_holder_of_a_security_group_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ec2 = client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]
    group = ec2.create_security_group(GroupName="endpoint", Description="x", VpcId=subnet["VpcId"])["GroupId"]
    interface = ec2.create_network_interface(
        SubnetId=subnet["SubnetId"], Groups=[group], Description="[DO NOT DELETE] ENI managed by SageMaker"
    )["NetworkInterface"]["NetworkInterfaceId"]
    failed = {"ResourceType": "AWS::EC2::SecurityGroup", "ResourceStatus": "DELETE_FAILED", "PhysicalResourceId": group}
    monkeypatch.setattr(Account, "stacks", lambda _: [{"StackName": "s", "StackStatus": "DELETE_FAILED"}])
    monkeypatch.setattr(Account, "resources", lambda *_: [failed])
    (line,) = cdk.holders(Account(load_settings("dev")))
    assert group in line and interface in line and "SageMaker" in line


@pytest.mark.parametrize("deployment", ["dev", "prod"])
def test_leftovers_are_found_by_tag_and_by_name(deployment: str) -> None:
    tags = {names.TAG_DEPLOYMENT: deployment}
    s3, kms, logs = client("s3"), client("kms"), client("logs")
    for bucket, owner in (("ours", deployment), ("theirs", "another")):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": names.TAG_DEPLOYMENT, "Value": owner}]})
    keys = [
        kms.create_key(Tags=[{"TagKey": names.TAG_DEPLOYMENT, "TagValue": deployment}])["KeyMetadata"] for _ in range(2)
    ]
    kms.schedule_key_deletion(KeyId=keys[0]["KeyId"], PendingWindowInDays=7)
    logs.create_log_group(logGroupName=f"/torchlift/{deployment}/jobs/untagged")
    logs.create_log_group(logGroupName=f"/torchlift/{deployment}-2/jobs/other", tags={})
    topic = client("sns").create_topic(
        Name="alarms", Tags=[{"Key": key, "Value": value} for key, value in tags.items()]
    )["TopicArn"]
    client("ssm").put_parameter(Name=f"/torchlift/{deployment}/sentiment/model", Value="x", Type="String")
    image = client("ec2").describe_images()["Images"][0]["ImageId"]
    instance = client("ec2").run_instances(
        ImageId=image,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
    )["Instances"][0]["InstanceId"]
    client("ec2").terminate_instances(InstanceIds=[instance])
    found = left(deployment)
    stays = deployment == "prod"
    group = f"arn:aws:logs:us-west-2:123456789012:log-group:/torchlift/{deployment}/jobs/untagged"
    parameter = f"arn:aws:ssm:us-west-2:123456789012:parameter/torchlift/{deployment}/sentiment/model"
    assert {what: expected for what, (expected, _, _) in found.items()} == {
        "arn:aws:s3:::ours": stays,
        keys[0]["Arn"]: True,
        keys[1]["Arn"]: stays,
        group: stays,
        parameter: False,
        topic: False,
    }
    assert "pending deletion" in found[keys[0]["Arn"]][1]
    assert f"--name /torchlift/{deployment}/sentiment/model " in found[parameter][2]
    assert f"delete-log-group --log-group-name /torchlift/{deployment}/jobs/untagged " in found[group][2]
    assert ("on purpose" in found["arn:aws:s3:::ours"][1]) == stays
