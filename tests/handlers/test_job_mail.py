"""What people read when a job failed, and that no fault of it keeps the stack waiting."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from settings import REPO_ROOT, names
from tests.handlers.events import build_event, of_job
from tests.support.aws import REGION
from tests.support.receiver import Receiver
from torchlift.handlers.signal_job import handler
from torchlift.handlers.signal_job.mail import tell
from torchlift.handlers.signal_job.verdict import Verdict

HASH = "0123456789abcdef"


class Subscriber:
    """A queue on the topic."""

    def __init__(self) -> None:
        self.sqs: Any = boto3.client("sqs")
        sns: Any = boto3.client("sns")
        self.topic: str = sns.create_topic(Name="alarms")["TopicArn"]
        self.url = self.sqs.create_queue(QueueName="mailbox")["QueueUrl"]
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:123456789012:mailbox")

    def received(self) -> list[dict[str, str]]:
        messages = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", [])
        return [json.loads(message["Body"]) for message in messages]


@pytest.fixture
def subscriber(aws: None, monkeypatch: pytest.MonkeyPatch) -> Subscriber:
    made = Subscriber()
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("TORCHLIFT_DEPLOYMENT", "dev")
    monkeypatch.setenv("TORCHLIFT_JOB_LOGS", names.log_group_of_job("dev", ""))
    monkeypatch.setenv("TORCHLIFT_TOPIC_ARN", made.topic)
    return made


def test_what_people_read(subscriber: Subscriber) -> None:
    tell(job="serving-image", hash=HASH, reason="phase BUILD FAILED (exit 1)")
    (mail,) = subscriber.received()
    assert mail["Subject"] == "Torchlift dev: serving-image failed"
    for text in ("serving-image", "dev", HASH, "phase BUILD FAILED (exit 1)", "/torchlift/dev/jobs/serving-image"):
        assert text in mail["Message"]
    console = f"https://{REGION}.console.aws.amazon.com/cloudwatch/home?region={REGION}"
    assert f"{console}#logsV2:log-groups/log-group/$252Ftorchlift$252Fdev$252Fjobs$252Fserving-image" in mail["Message"]
    document, _, section = mail["Message"].rpartition("To do:   ")[2].partition("#")
    titles = [line[3:].lower().replace(" ", "-") for line in (REPO_ROOT / document).read_text().splitlines()]
    assert section in titles


@pytest.mark.parametrize("job", names.JOBS)
def test_subjects_are_what_sns_takes(job: str, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 to 100 printable ASCII characters, also in a deployment with the longest name."""
    monkeypatch.setenv("TORCHLIFT_DEPLOYMENT", "d" * 20)
    tell(job=job, hash=HASH, reason="ü\n" * 100_000)
    (mail,) = subscriber.received()
    assert mail["Subject"].isascii() and mail["Subject"].isprintable() and len(mail["Subject"]) <= 100
    assert len(mail["Message"].encode()) < 256 * 1024


@pytest.mark.parametrize("fault", ["topic", "environment"])
def test_the_stack_hears_of_it_even_when_nobody_else_does(
    fault: str,
    subscriber: Subscriber,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if fault == "topic":
        boto3.client("sns").delete_topic(TopicArn=subscriber.topic)
    else:
        monkeypatch.delenv("TORCHLIFT_TOPIC_ARN")
    failed = Verdict(ended=True, success=False, reason="out of disk")
    monkeypatch.setattr(handler, "judge_build", lambda event: failed)
    handler.handle(of_job(build_event("FAILED"), receiver.url, result=f"s3://artifacts/weights/{HASH}/"), None)
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"]
    assert "nobody was told of sentiment-train" in capsys.readouterr().out
