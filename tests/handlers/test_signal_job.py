"""signal_job: how a job ended, with phase, reason and log, however it ended."""

from __future__ import annotations

import datetime
from typing import Any

import boto3
import pytest

from tests.handlers.events import build_event, group_event, of_job
from tests.support.receiver import Receiver
from torchlift.handlers.signal_job import builds, handler, instances
from torchlift.handlers.signal_job.handler import handle

HASH = "0123456789abcdef"
RESULT = f"s3://artifacts/weights/sentiment/{HASH}/"
NOW = datetime.datetime.now(tz=datetime.UTC)
LINK = "https://console.aws.amazon.com/cloudwatch/home#logEvent:group=g;stream=s"


class CodeBuild:
    """BatchGetBuilds."""

    def __init__(self, build: dict[str, Any] | None) -> None:
        self.build = build
        self.asked: list[list[str]] = []

    def batch_get_builds(self, *, ids: list[str]) -> dict[str, Any]:
        self.asked.append(ids)
        return {"builds": [self.build] if self.build else []}


class AutoScaling:
    """One group and its activities, a page for each."""

    def __init__(
        self, *, desired: int = 1, activities: list[dict[str, Any]] | None = None, exists: bool = True
    ) -> None:
        self.desired = desired
        self.activities = activities or []
        self.exists = exists
        self.set: list[int] = []

    def describe_auto_scaling_groups(self, *, AutoScalingGroupNames: list[str]) -> dict[str, Any]:
        group = {
            "AutoScalingGroupName": AutoScalingGroupNames[0],
            "AutoScalingGroupARN": "arn:new",
            "DesiredCapacity": self.desired,
        }
        return {"AutoScalingGroups": [group] if self.exists else []}

    def get_paginator(self, name: str) -> AutoScaling:
        assert name == "describe_scaling_activities"
        return self

    def paginate(self, *, AutoScalingGroupName: str) -> list[dict[str, Any]]:
        return [{"Activities": [activity]} for activity in self.activities]

    def set_desired_capacity(self, *, AutoScalingGroupName: str, DesiredCapacity: int, HonorCooldown: bool) -> None:
        self.set.append(DesiredCapacity)


def launch(*, minutes_ago: int = 1, status: str = "Successful", arn: str = "arn:new") -> dict[str, Any]:
    return {
        "Description": "Launching a new EC2 instance: i-1",
        "StatusCode": status,
        "StartTime": NOW - datetime.timedelta(minutes=minutes_ago),
        "AutoScalingGroupARN": arn,
    }


def use(monkeypatch: pytest.MonkeyPatch, module: Any, client: Any) -> Any:
    class Boto:
        @staticmethod
        def client(service: str, **_: Any) -> Any:
            return client

    monkeypatch.setattr(module, "boto3", Boto)
    return client


@pytest.fixture(autouse=True)
def mails(monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> list[dict[str, str]]:
    """What people are told, each before the stack hears of it."""
    sent: list[dict[str, str]] = []

    def tell(**message: str) -> None:
        assert not receiver.bodies
        sent.append(message)

    monkeypatch.setattr(handler, "tell", tell)
    return sent


def told(event: dict[str, Any], receiver: Receiver, group: str = "") -> tuple[str, str] | None:
    """(status, reason) of the signal, if there was one."""
    handle(of_job(event, receiver.url, result=RESULT, group=group), None)
    if not receiver.bodies:
        return None
    (body,) = receiver.bodies
    assert body["UniqueId"] == HASH
    assert receiver.content_types == [""]
    assert len(body["Reason"].encode()) <= 1000
    return body["Status"], body["Reason"]


def test_build_succeeded(receiver: Receiver) -> None:
    assert told(build_event("SUCCEEDED"), receiver) == ("SUCCESS", "sentiment-train: build project:1 succeeded")


def test_build_goes_on(receiver: Receiver) -> None:
    assert told(build_event("IN_PROGRESS"), receiver) is None


@pytest.mark.parametrize("status", ["FAILED", "STOPPED", "FAULT", "TIMED_OUT", "SOMETHING_NEW"])
def test_every_other_end_is_a_failure(status: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, builds, CodeBuild(None))
    assert told(build_event(status), receiver) == ("FAILURE", f"sentiment-train: build project:1 {status}")


@pytest.mark.parametrize("phase", ["QUEUED", "PROVISIONING", "DOWNLOAD_SOURCE", "INSTALL", "BUILD", "FINALIZING"])
def test_phase_reason_and_log(phase: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a build that failed before its first command, which no script could report."""
    build = {
        "phases": [
            {"phaseType": "SUBMITTED", "phaseStatus": "SUCCEEDED"},
            {
                "phaseType": phase,
                "phaseStatus": "FAILED",
                "contexts": [{"statusCode": "X", "message": "no space left"}],
            },
            {"phaseType": "COMPLETED"},
        ],
        "logs": {"deepLink": LINK},
    }
    client = use(monkeypatch, builds, CodeBuild(build))
    answer = told(build_event("FAILED"), receiver)
    assert answer is not None
    assert answer[0] == "FAILURE"
    assert f"phase {phase} FAILED (no space left)" in answer[1]
    assert LINK in answer[1]
    assert client.asked == [["project:1"]]


def test_long_reasons_are_cut(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = [{"message": "ü" * 5000}]
    use(
        monkeypatch,
        builds,
        CodeBuild({"phases": [{"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": contexts}]}),
    )
    assert told(build_event("FAILED"), receiver) is not None


def test_lost_instance_is_replaced_and_resumes(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, instances, AutoScaling(activities=[launch()]))
    assert told(group_event("Terminate Successful", "g", Cause="reclaimed"), receiver, "g") is None
    assert client.set == []


def test_three_starts_are_all(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, instances, AutoScaling(activities=[launch() for _ in range(3)]))
    answer = told(group_event("Terminate Successful", "g", Cause="reclaimed"), receiver, "g")
    assert answer is not None
    assert answer[0] == "FAILURE"
    assert "3 instances were started" in answer[1]
    assert "reclaimed" in answer[1]
    assert client.set == [0], "the group is off, or it would start a fourth"


def test_starts_that_do_not_count(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed launches, other activities, and those of an earlier group of the same name."""
    others = [
        launch(status="Failed"),
        launch(arn="arn:old"),
        {**launch(), "Description": "Terminating EC2 instance: i-1"},
    ]
    client = use(monkeypatch, instances, AutoScaling(activities=[launch(), launch(), *others]))
    assert told(group_event("Terminate Successful", "g"), receiver, "g") is None
    assert client.set == []


@pytest.mark.parametrize(("published", "status"), [(True, "SUCCESS"), (False, "FAILURE")])
def test_instance_that_ended_itself(
    published: bool, status: str, bucket: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own signal comes first and stands; this one is for an instance that could not send it."""
    if published:
        boto3.client("s3").put_object(Bucket=bucket, Key=f"weights/sentiment/{HASH}/manifest.json", Body=b"{}")
    client = use(monkeypatch, instances, AutoScaling(desired=0))
    answer = told(group_event("Terminate Successful", "g"), receiver, "g")
    assert answer is not None
    assert answer[0] == status
    assert client.set == []


@pytest.mark.parametrize(
    "message",
    [
        "We currently do not have sufficient p4d.24xlarge capacity in the Availability Zone you requested.",
        "There is no Spot capacity available that matches your request.",
        "Could not launch On-Demand Instances. InsufficientInstanceCapacity - ...",
        "Your requested instance type (p4d.24xlarge) is not supported in your requested Availability Zone (us-west-2c)",
    ],
)
def test_full_zones_are_searched_on(message: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, instances, AutoScaling(activities=[launch(status="Failed", minutes_ago=10)]))
    assert told(group_event("Launch Unsuccessful", "g", StatusMessage=message), receiver, "g") is None
    assert client.set == []


def test_patience_with_capacity_ends(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, instances, AutoScaling(activities=[launch(status="Failed", minutes_ago=51)]))
    event = group_event("Launch Unsuccessful", "g", StatusMessage="InsufficientInstanceCapacity")
    answer = told(event, receiver, "g")
    assert answer is not None
    assert "no capacity in any zone for 50 minutes" in answer[1]
    assert client.set == [0]


def test_patience_starts_anew_after_a_start(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that ran for hours and was interrupted: its replacement has 50 minutes, too."""
    history = [
        launch(status="Failed", minutes_ago=400),
        launch(minutes_ago=390),
        launch(status="Failed", minutes_ago=5),
    ]
    client = use(monkeypatch, instances, AutoScaling(activities=history))
    event = group_event("Launch Unsuccessful", "g", StatusMessage="InsufficientInstanceCapacity")
    assert told(event, receiver, "g") is None
    history.append(launch(status="Failed", minutes_ago=55))
    answer = told(event, receiver, "g")
    assert answer is not None and "no capacity" in answer[1]
    assert client.set == [0]


@pytest.mark.parametrize(
    "message",
    [
        "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket",
        "The image id '[ami-0]' does not exist. Launching EC2 instance failed.",
        "You are not authorized to perform this operation.",
        None,
    ],
)
def test_what_stays_wrong_fails_at_once(
    message: str | None, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = use(monkeypatch, instances, AutoScaling())
    answer = told(group_event("Launch Unsuccessful", "g", StatusMessage=message), receiver, "g")
    assert answer is not None
    assert answer[0] == "FAILURE"
    assert "no instance can be launched" in answer[1]
    assert client.set == [0], "nothing is stopped twice: the group is off"


def test_a_group_that_is_gone(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, instances, AutoScaling(exists=False))
    assert told(group_event("Terminate Successful", "g"), receiver, "g") is None
    assert client.set == []


@pytest.mark.parametrize("status", ["SUCCEEDED", "IN_PROGRESS"])
def test_nobody_is_told_of_what_did_not_fail(status: str, receiver: Receiver, mails: list[dict[str, str]]) -> None:
    told(build_event(status), receiver)
    assert mails == []


def test_people_are_told_of_a_failed_build(
    receiver: Receiver, mails: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, builds, CodeBuild(None))
    told(build_event("TIMED_OUT"), receiver)
    assert mails == [{"job": "sentiment-train", "hash": HASH, "reason": "build project:1 TIMED_OUT"}]


def test_people_are_told_of_instances_that_are_given_up(
    receiver: Receiver, mails: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, instances, AutoScaling(activities=[launch()]))
    told(group_event("Terminate Successful", "g"), receiver, "g")
    assert mails == [], "it is replaced"
    use(monkeypatch, instances, AutoScaling(activities=[launch() for _ in range(3)]))
    told(group_event("Terminate Successful", "g"), receiver, "g")
    assert ["3 instances were started" in mail["reason"] for mail in mails] == [True]


@pytest.mark.parametrize("kind", ["Terminate Successful", "Launch Unsuccessful"])
def test_events_after_the_end_tell_nobody_again(
    kind: str, bucket: str, receiver: Receiver, mails: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is off: its instance or `signal_job` turned it off, and each of them told."""
    use(monkeypatch, instances, AutoScaling(desired=0))
    assert told(group_event(kind, "g"), receiver, "g") is not None
    assert mails == []


def test_other_events_are_refused(receiver: Receiver) -> None:
    with pytest.raises(ValueError, match=r"aws\.ec2"):
        told({"source": "aws.ec2", "detail": {}}, receiver)


def test_real_clients_are_called_right(aws: None, receiver: Receiver) -> None:
    """The calls' names and arguments, against moto's account without any group or build."""
    assert told(group_event("Terminate Successful", "g"), receiver, "g") is None
