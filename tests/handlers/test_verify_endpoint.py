"""verify_endpoint: an endpoint that does not answer right fails the stack, once and in words."""

from __future__ import annotations

import io
import itertools
import json
import math
import time
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.handlers.conftest import Context
from tests.handlers.events import request
from tests.support.receiver import Receiver
from torchlift.handlers.verify_endpoint import handler

KEY = "packages/sentiment/0123456789abcdef/probe.json"
RIGHT = [[{"label": "positive", "score": 0.9}, {"label": "negative", "score": 0.1}]]
PROBE: dict[str, Any] = {
    "schema": 1,
    "content_type": "application/json",
    "tolerance": 0.05,
    "labels": ["negative", "positive"],
    "cases": [{"request": {"inputs": ["fine"]}, "answer": RIGHT}, {"request": {"inputs": ["good"]}, "answer": RIGHT}],
}
UNKNOWN = {**PROBE, "cases": [{"request": {"inputs": ["fine"]}, "answer": None}]}


def scored(**scores: float) -> list[list[dict[str, Any]]]:
    return [[{"label": label, "score": score} for label, score in scores.items()]]


def error(code: str, **more: object) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "told by AWS"}, **more}
    return ClientError(response, "InvokeEndpoint")


class Endpoint:
    """SageMaker, as far as the handler calls it; S3 is moto's."""

    def __init__(self) -> None:
        self.held: list[dict[str, str]] = [{"EndpointStatus": "InService", "EndpointConfigName": "new"}]
        self.answers: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.takes = 0.0

    def client(self, service: str, **arguments: Any) -> Any:
        return self if service.startswith("sagemaker") else boto3.client(service, **arguments)  # type: ignore[call-overload]

    def describe_endpoint(self, **_: Any) -> dict[str, str]:
        return self.held.pop(0) if len(self.held) > 1 else self.held[0]

    def invoke_endpoint(self, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments)
        self.times.append(time.monotonic())
        time.sleep(self.takes)
        answer = self.answers.pop(0) if self.answers else RIGHT
        if isinstance(answer, Exception):
            raise answer
        return {"Body": io.BytesIO(answer if isinstance(answer, bytes) else json.dumps(answer).encode())}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    made = Endpoint()
    clock = [0.0]

    class Boto:
        client = staticmethod(made.client)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(handler, "boto3", Boto)
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    return made


@pytest.fixture
def ask(bucket: str, endpoint: Endpoint, receiver: Receiver, context: Context) -> Any:
    """Send one request; returns the only answer."""

    def run(kind: str = "Create", *, probe: object = PROBE) -> tuple[str, str]:
        if probe is not None:
            body = probe if isinstance(probe, bytes) else json.dumps(probe).encode()
            boto3.client("s3").put_object(Bucket=bucket, Key=KEY, Body=body)
        variants = [{"Name": name, "Probe": f"s3://{bucket}/{KEY}"} for name in ("AllTraffic", "next")]
        handler.handle(request(kind, receiver.url, Endpoint="ours", Config="new", Variants=variants), context)
        (answer,) = receiver.bodies
        assert len(answer["Reason"].encode()) <= 1000
        return answer["Status"], answer["Reason"]

    return run


def test_right_answers_of_every_variant(ask: Any, endpoint: Endpoint) -> None:
    endpoint.answers = [scored(positive=0.94, negative=0.06), scored(negative=0.14, positive=0.86)]
    assert ask() == ("SUCCESS", "")
    assert [item["TargetVariant"] for item in endpoint.asked] == ["AllTraffic", "AllTraffic", "next", "next"]
    assert json.loads(endpoint.asked[1]["Body"]) == {"inputs": ["good"]}


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        (scored(negative=0.9, positive=0.1), "negative 0.900"),
        (scored(positive=0.8, negative=0.2), "positive 0.800"),
        (scored(positive=float("nan"), negative=0.1), "nan"),
        (scored(positive=0.9, negative=0.05, neutral=0.05), "neutral"),
        (scored(POSITIVE=0.9, NEGATIVE=0.1), "POSITIVE"),
        ([], "given 0"),
        ([[]], "no labels"),
        (b"<html>", "<html>"),
        ({"error": "no"}, "error"),
    ],
)
def test_a_wrong_answer_fails_at_once(answer: Any, given: str, ask: Any, endpoint: Endpoint) -> None:
    endpoint.answers = [RIGHT, RIGHT, RIGHT, answer]
    status, reason = ask()
    assert status == "FAILED"
    assert reason.startswith("endpoint ours, variant next, text 2: expected ")
    assert given in reason
    assert len(endpoint.asked) == 4


def test_labels_may_change_places_where_the_model_was_not_sure(ask: Any, endpoint: Endpoint) -> None:
    close = {**PROBE, "cases": [{"request": {"inputs": ["so"]}, "answer": scored(positive=0.52, negative=0.48)}]}
    endpoint.answers = [scored(negative=0.51, positive=0.49)] * 2
    assert ask(probe=close) == ("SUCCESS", "")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (scored(negative=0.7, positive=0.305), "SUCCESS"),
        (scored(negative=0.7, positive=0.2), "FAILED"),
        (scored(negative=1.1, positive=-0.1), "FAILED"),
        (scored(negative=0.7, other=0.3), "FAILED"),
        (scored(negative=float("nan"), positive=0.3), "FAILED"),
    ],
)
def test_answers_that_nobody_knows(answer: Any, status: str, ask: Any, endpoint: Endpoint) -> None:
    endpoint.answers = [answer, answer]
    assert ask(probe=UNKNOWN)[0] == status


def test_a_silent_rollback(ask: Any, endpoint: Endpoint) -> None:
    endpoint.held = [{"EndpointStatus": "InService", "EndpointConfigName": "old", "FailureReason": "alarm a rang"}]
    status, reason = ask()
    assert status == "FAILED"
    assert "serves old, not new" in reason and "alarm a rang" in reason
    assert not endpoint.asked


@pytest.mark.parametrize("status", ["Failed", "UpdateRollbackFailed", "Updating"])
def test_an_endpoint_that_does_not_come_into_service(status: str, ask: Any, endpoint: Endpoint) -> None:
    endpoint.held = [{"EndpointStatus": status, "EndpointConfigName": "new", "FailureReason": "no capacity"}]
    assert ask() == ("FAILED", f"endpoint ours is {status}, not InService: no capacity")


def test_a_scaling_activity_is_waited_for(ask: Any, endpoint: Endpoint) -> None:
    endpoint.held = [{"EndpointStatus": "Updating", "EndpointConfigName": "new"}, *endpoint.held]
    assert ask() == ("SUCCESS", "")


@pytest.mark.parametrize(
    "passing",
    [
        error("ModelError", OriginalStatusCode=503),
        # The container did not answer within SageMaker's 60 s.
        error("ModelError", OriginalStatusCode=0),
        error("ServiceUnavailable"),
        error("ThrottlingException"),
    ],
)
def test_what_passes_is_asked_again(passing: ClientError, ask: Any, endpoint: Endpoint) -> None:
    endpoint.answers = [passing, passing]
    assert ask() == ("SUCCESS", "")
    assert len(endpoint.asked) == 6


def test_patience_ends(ask: Any, endpoint: Endpoint) -> None:
    endpoint.answers = [error("ModelError", OriginalStatusCode=500)] * 1000
    status, reason = ask()
    assert status == "FAILED"
    assert "variant AllTraffic does not answer" in reason
    assert 2 < len(endpoint.asked) <= 30


@pytest.mark.parametrize("waits", range(0, 80, 7))
def test_the_stack_is_answered_before_lambda_ends_the_function(
    waits: int, ask_model: Any, endpoint: Endpoint, context: Context
) -> None:
    """However long the endpoint took to come into service, the last question may take as long as it can."""
    endpoint.held = [{"EndpointStatus": "Updating", "EndpointConfigName": "new"}] * waits + endpoint.held
    attempt: Any = handler.ONE_ATTEMPT
    endpoint.takes = attempt.connect_timeout + attempt.read_timeout
    assert ask_model(*[error("ServiceUnavailable")] * 1000)[0] == "FAILED"
    assert time.monotonic() <= context.remaining_ms / 1000 - 10


def test_questions_ring_no_alarm(ask: Any, endpoint: Endpoint) -> None:
    """An alarm takes two failures in one of its periods at least, and rolls back whatever update comes next."""
    endpoint.answers = [error("ModelError", OriginalStatusCode=500)] * 1000
    ask()
    assert len(endpoint.times) > 2
    assert all(later - earlier > 60 for earlier, later in itertools.pairwise(endpoint.times))


@pytest.mark.parametrize("refusal", [error("ModelError", OriginalStatusCode=400), error("ValidationError")])
def test_a_refusal_is_not_repeated(refusal: ClientError, ask: Any, endpoint: Endpoint) -> None:
    endpoint.answers = [refusal]
    assert ask()[0] == "FAILED"
    assert len(endpoint.asked) == 1


def test_a_package_without_a_probe(ask: Any) -> None:
    status, reason = ask(probe=None)
    assert status == "FAILED"
    assert KEY in reason and "there is no" in reason


@pytest.mark.parametrize(
    "probe",
    [
        b"{",
        b"[]",
        {**PROBE, "schema": 2},
        {**PROBE, "cases": []},
        {**PROBE, "tolerance": 1},
        {**UNKNOWN, "labels": None},
        {**PROBE, "cases": [{"request": {"inputs": ["a", "b"]}, "answer": RIGHT}]},
        {**PROBE, "cases": [{"request": {"inputs": []}, "answer": []}]},
        {**PROBE, "cases": [{"request": {"inputs": ["a"]}, "answer": [[]]}]},
        {**PROBE, "cases": [{"inputs": ["a"]}]},
    ],
)
def test_a_probe_that_would_prove_nothing(probe: object, ask: Any, endpoint: Endpoint) -> None:
    status, reason = ask(probe=probe)
    assert status == "FAILED"
    assert f"{KEY} cannot be used" in reason
    assert not endpoint.asked


@pytest.mark.parametrize("kind", ["Update", "Delete"])
def test_only_creation_asks(kind: str, ask: Any, endpoint: Endpoint) -> None:
    """In a rollback the endpoint is not back yet when its resource is updated."""
    endpoint.held = [{"EndpointStatus": "Failed", "EndpointConfigName": "old"}]
    assert ask(kind) == ("SUCCESS", "")


def test_whatever_happens_is_answered(ask: Any, endpoint: Endpoint) -> None:
    endpoint.held = [{}]
    assert ask() == ("FAILED", "cannot verify the endpoint: KeyError: 'EndpointStatus'")


VECTORS: dict[str, Any] = {
    "schema": 1,
    "format": "vectors",
    "content_type": "application/json",
    "least_similarity": 0.99,
    "cases": [{"request": {"inputs": []}, "output": "pooled", "vectors": [[1.0, 0.0], [0.0, 1.0]]}],
}


def pooled(*values: float, name: str = "pooled") -> dict[str, Any]:
    return {"outputs": [{"name": name, "datatype": "FP32", "shape": [2, 2], "data": list(values)}]}


@pytest.fixture
def ask_model(bucket: str, endpoint: Endpoint, receiver: Receiver, context: Context) -> Any:
    """Verify one model of a multi-model endpoint; returns the only answer."""

    def run(*answers: Any, probe: dict[str, Any] = VECTORS) -> tuple[str, str]:
        endpoint.answers = list(answers)
        boto3.client("s3").put_object(Bucket=bucket, Key=KEY, Body=json.dumps(probe).encode())
        one = {"Name": "AllTraffic", "Probe": f"s3://{bucket}/{KEY}", "TargetModel": "encoder-0.tar.gz"}
        handler.handle(request("Create", receiver.url, Endpoint="ours", Config="new", Variants=[one]), context)
        (told,) = receiver.bodies
        return told["Status"], told["Reason"]

    return run


def test_a_model_of_many_is_asked_by_its_archive(ask_model: Any, endpoint: Endpoint) -> None:
    assert ask_model(pooled(2.0, 0.01, 0.0, 0.5)) == ("SUCCESS", "")
    (asked,) = endpoint.asked
    assert asked["TargetModel"] == "encoder-0.tar.gz"
    assert "TargetVariant" not in asked


def test_a_model_that_is_still_loading_is_waited_for(ask_model: Any, endpoint: Endpoint) -> None:
    """SageMaker goes on loading for 360 s (developer guide, "Invoke a Multi-Model Endpoint")."""
    loading = [error("ModelNotReadyException")] * math.ceil(360 / handler.PAUSE_S)
    assert ask_model(*loading, pooled(2.0, 0.01, 0.0, 0.5)) == ("SUCCESS", "")
    assert endpoint.times[-1] - endpoint.times[0] >= 360


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (pooled(1.0, 0.0, 1.0, 0.0), "text 2: expected a vector like the model's own"),
        (pooled(0.0, 0.0, 0.0, 1.0), "given one of nan"),
        (pooled(1.0, 0.0), "expected 2 numbers, given 1"),
        (pooled(1.0, 0.0, 0.0, 1.0, name="other"), "expected output pooled"),
        (b"[]", "expected output pooled"),
        (b"no JSON", "expected output pooled"),
    ],
)
def test_wrong_vectors_fail_the_stack(ask_model: Any, answer: Any, reason: str) -> None:
    status, told = ask_model(answer)
    assert status == "FAILED"
    assert reason in told and "model encoder-0.tar.gz" in told


@pytest.mark.parametrize(
    "changes",
    [
        {"cases": []},
        {"least_similarity": 0},
        {"cases": [{"request": {}, "output": "pooled", "vectors": [[0.0, 0.0]]}]},
        {"cases": [{"request": {}, "output": "pooled", "vectors": []}]},
        {"schema": 2},
    ],
)
def test_unusable_vectors(ask_model: Any, changes: dict[str, Any]) -> None:
    status, told = ask_model(pooled(1.0, 0.0, 0.0, 1.0), probe=VECTORS | changes)
    assert status == "FAILED" and "cannot be used" in told
