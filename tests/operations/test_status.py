"""Status: what serves, rings and runs; and what may not be seen is said without hiding the rest."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from operations.account import Account
from operations.cli import main
from tests.operations import deployed
from tests.operations.deployed import client

ALARM: dict[str, Any] = {
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 1,
    "MetricName": "m",
    "Namespace": "n",
    "Period": 60,
    "Statistic": "Sum",
    "Threshold": 1,
}
GROUP = {"ResourceType": "AWS::AutoScaling::AutoScalingGroup", "PhysicalResourceId": "group"}


@pytest.fixture
def name(account: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A deployment with an endpoint, an alarm and a training group; returns the endpoint's name."""
    bucket = deployed.foundation("dev")
    client("cloudwatch").put_metric_alarm(AlarmName="ours", **ALARM)
    alarm = {"ResourceType": "AWS::CloudWatch::Alarm", "PhysicalResourceId": "ours"}
    # moto's CloudFormation makes neither.
    monkeypatch.setattr(Account, "resources", lambda *_: [alarm, GROUP])
    return deployed.endpoint("dev", bucket, {"main": "a" * 16, "challenger": "b" * 16})


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["status", "dev"]) == 0
    return capsys.readouterr().out


def test_endpoint_variants_and_the_reason_of_a_silent_rollback(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = shown(capsys)
    # "Creating" for ever, when tests of the stand-in have taught moto in the same process to wait for real servers.
    state = client("sagemaker").describe_endpoint(EndpointName=name)["EndpointStatus"]
    assert f"Endpoint {name}: {state}, configuration {name}-config" in printed
    assert "variant main: 1 of 1 instances, weight 1" in printed and "variant challenger" in printed
    assert "failed" not in printed and "ALARM" not in printed and "Running" not in printed
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        answer = real(self, operation, kwargs)
        return answer | {"FailureReason": "alarm\n went off"} if operation == "DescribeEndpoint" else answer

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    assert "last update failed: alarm went off" in shown(capsys)


def test_every_workloads_endpoint_is_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    client("ssm").put_parameter(Name="/torchlift/dev/text-encoding/endpoint", Value="encoders", Type="String")
    printed = shown(capsys)
    assert f"Endpoint {name}: " in printed and "Endpoint encoders does not exist." in printed


@pytest.mark.usefixtures("name")
def test_only_alarms_that_ring_and_only_ours(capsys: pytest.CaptureFixture[str]) -> None:
    cloudwatch = client("cloudwatch")
    cloudwatch.put_metric_alarm(AlarmName="theirs", **ALARM)
    for alarm in ("theirs", "ours"):
        cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="too slow")
    printed = shown(capsys)
    assert "ALARM ours: too slow" in printed and "theirs" not in printed


@pytest.mark.usefixtures("name")
def test_a_running_job_with_its_last_line_and_a_link(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = 1_700_000_000_000
    said = ("epoch 1", "epoch 2 loss 0.5", '{"_aws": {"Timestamp": 1}}')
    lines = [{"timestamp": moment + number, "message": line} for number, line in enumerate(said)]
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation == "DescribeAutoScalingGroups":
            tags = [{"Key": "torchlift:job", "Value": "sentiment-train"}]
            return {"AutoScalingGroups": [{"DesiredCapacity": 1, "Tags": tags}]}
        if operation == "DescribeLogStreams":
            return {"logStreams": [{"logStreamName": "i-1"}]}
        if operation == "GetLogEvents":
            return {"events": lines[-kwargs["limit"] :]}
        return real(self, operation, kwargs)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    printed = shown(capsys)
    assert "Running sentiment-train: epoch 2 loss 0.5" in printed
    assert "#logsV2:log-groups/log-group/$252Ftorchlift$252Fdev$252Fjobs$252Fsentiment-train" in printed


def test_what_may_not_be_seen_is_said_and_the_rest_shown(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation == "DescribeAlarms":
            said = "User: x is not authorized to perform: cloudwatch:DescribeAlarms"
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": said}}, operation)
        return real(self, operation, kwargs)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    printed = shown(capsys)
    assert "not allowed: cloudwatch:DescribeAlarms" in printed and f"Endpoint {name}" in printed


def fleet_of(*targets: dict[str, Any]) -> dict[str, Any]:
    """AWS's answers about a fleet of three, one of them starting, with these targets."""
    states = ("InService", "InService", "Pending:Wait")
    group = {
        "AutoScalingGroupName": "group", "MinSize": 1, "MaxSize": 4, "DesiredCapacity": 3,
        "TargetGroupARNs": ["targets"],
        "Tags": [{"Key": "torchlift:job", "Value": "question-answering-fleet"}],
        "Instances": [{"LifecycleState": state} for state in states],
    }  # fmt: skip
    return {
        "DescribeAutoScalingGroups": {"AutoScalingGroups": [group]},
        "DescribeTargetHealth": {"TargetHealthDescriptions": list(targets)},
    }


def target(name: str, state: str, **more: str) -> dict[str, Any]:
    return {"Target": {"Id": name}, "TargetHealth": {"State": state, **more}}


@pytest.mark.usefixtures("name")
def test_the_fleet_its_instances_and_why_one_is_unwell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Question answering" not in shown(capsys)
    client("ssm").put_parameter(Name="/torchlift/dev/question-answering/url", Value="http://internal-x", Type="String")
    unwell = target("i-2", "unhealthy", Reason="Target.Timeout", Description="Request\n timed out")
    answers = fleet_of(target("i-1", "healthy"), unwell, target("i-3", "initial", Reason="Elb.RegistrationInProgress"))
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        return answers.get(operation) or real(self, operation, kwargs)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    lines = shown(capsys).splitlines()
    start = lines.index("Question answering at http://internal-x (inside the VPC)")
    assert lines[start + 1 : start + 5] == [
        "  instances: 2 in service of 3 wanted (1 to 4), 1 Pending:Wait",
        "  behind the load balancer: 1 healthy, 1 initial, 1 unhealthy",
        "    i-2 unhealthy: Request timed out",
        "    i-3 initial: Elb.RegistrationInProgress",
    ]
    assert not any(line.startswith("Running") for line in lines), "a fleet is no job that runs"
