"""The Lambda handlers, in process, with moto behind boto3 and a receiver that answers like a presigned URL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.support.aws import REGION
from tests.support.receiver import Receiver, receiving


class Context:
    """What Lambda hands a handler: the time that is left."""

    def __init__(self, remaining_ms: int = 800_000) -> None:
        self.remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture(scope="session")
def listening() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def receiver(listening: Receiver) -> Receiver:
    """One server for all tests (its end takes half a second), empty at the start of each."""
    listening.bodies.clear()
    listening.content_types.clear()
    listening.refused = listening.refuse_next = 0
    return listening


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account in this process; the receiver stays reachable."""
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield


@pytest.fixture
def bucket(aws: None) -> str:
    s3: Any = boto3.client("s3")
    s3.create_bucket(Bucket="artifacts", CreateBucketConfiguration={"LocationConstraint": REGION})
    return "artifacts"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Retries take no time; what they would have waited is recorded."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    return pauses
