"""start_job: on creation only, once, and not at all when the result is there."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.handlers.conftest import Context
from tests.handlers.events import request
from tests.support.receiver import Receiver
from torchlift.handlers.start_job import handler

HASH = "0123456789abcdef"
RESULT = f"s3://artifacts/weights/sentiment/{HASH}/"
IMAGE = f"ecr://123456789012.dkr.ecr.us-west-2.amazonaws.com/repository:{HASH}"

MANIFEST = '{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}'


class Services:
    """CodeBuild and Auto Scaling, as far as the handler calls them; S3 and ECR are moto's."""

    def __init__(self, errors: list[str] | None = None) -> None:
        self.builds: list[dict[str, Any]] = []
        self.capacities: list[dict[str, Any]] = []
        self.errors = errors or []

    def client(self, service: str, **arguments: Any) -> Any:
        if service in ("codebuild", "autoscaling"):
            return self
        return boto3.client(service, **arguments)  # type: ignore[call-overload]

    def _fail(self, operation: str) -> None:
        if self.errors:
            raise ClientError({"Error": {"Code": self.errors.pop(0), "Message": "told by AWS"}}, operation)

    def start_build(self, **arguments: Any) -> dict[str, Any]:
        self._fail("StartBuild")
        self.builds.append(arguments)
        return {"build": {"id": "project:1"}}

    def set_desired_capacity(self, **arguments: Any) -> None:
        self._fail("SetDesiredCapacity")
        self.capacities.append(arguments)


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Services:
    made = Services()

    class Boto:
        client = staticmethod(made.client)

    monkeypatch.setattr(handler, "boto3", Boto)
    return made


def build(kind: str, receiver: Receiver, **changes: object) -> dict[str, Any]:
    return request(
        kind,
        receiver.url,
        **{
            "Kind": "build",
            "ProjectName": "project",
            "SourceLocation": "assets/source.zip",
            "Environment": {"B": "2", "A": 1},
            "BuildTimeoutMinutes": "60",
            "Result": RESULT,
            "Handle": receiver.url,
            **changes,
        },
    )


def instance(kind: str, receiver: Receiver) -> dict[str, Any]:
    return request(kind, receiver.url, Kind="instance", GroupName="group", Result=RESULT, Handle=receiver.url)


def test_build(bucket: str, services: Services, receiver: Receiver, context: Context) -> None:
    handler.handle(build("Create", receiver), context)
    (call,) = services.builds
    assert call["projectName"] == "project"
    assert call["sourceLocationOverride"] == "assets/source.zip"
    assert call["environmentVariablesOverride"] == [
        {"name": "A", "value": "1", "type": "PLAINTEXT"},
        {"name": "B", "value": "2", "type": "PLAINTEXT"},
    ]
    assert call["timeoutInMinutesOverride"] == 60
    assert len(call["idempotencyToken"]) == 64
    (answer,) = receiver.bodies
    assert answer["Status"] == "SUCCESS"
    assert answer["PhysicalResourceId"] == "Start-0f3c8a52"


def test_the_answer_has_an_empty_content_type(
    bucket: str, services: Services, receiver: Receiver, context: Context
) -> None:
    """It is part of the URL's signature: anything else is answered with 403."""
    handler.handle(build("Create", receiver), context)
    assert receiver.content_types == [""]
    assert receiver.refused == 0


def test_instance(bucket: str, services: Services, receiver: Receiver, context: Context) -> None:
    handler.handle(instance("Create", receiver), context)
    assert services.capacities == [{"AutoScalingGroupName": "group", "DesiredCapacity": 1, "HonorCooldown": False}]
    assert not services.builds


@pytest.mark.parametrize("kind", ["Update", "Delete"])
def test_nothing_but_creation_does_anything(
    kind: str, bucket: str, services: Services, receiver: Receiver, context: Context
) -> None:
    """A rollback sends an update with the old properties: it must not start old work again."""
    for event in (build(kind, receiver), instance(kind, receiver)):
        handler.handle(event, context)
    assert not services.builds
    assert not services.capacities
    assert [(item["Status"], item["PhysicalResourceId"]) for item in receiver.bodies] == [
        ("SUCCESS", "Start-0f3c8a52")
    ] * 2


@pytest.mark.parametrize("make", [build, instance])
def test_a_result_that_is_there(
    make: Any, bucket: str, services: Services, receiver: Receiver, context: Context
) -> None:
    boto3.client("s3").put_object(Bucket=bucket, Key=f"weights/sentiment/{HASH}/manifest.json", Body=b"{}")
    handler.handle(make("Create", receiver), context)
    assert not services.builds
    assert not services.capacities
    signal, answer = receiver.bodies
    assert (signal["Status"], signal["UniqueId"]) == ("SUCCESS", HASH)
    assert answer["Status"] == "SUCCESS"


def test_an_image_that_is_there(aws: None, services: Services, receiver: Receiver, context: Context) -> None:
    ecr: Any = boto3.client("ecr")
    ecr.create_repository(repositoryName="repository")
    handler.handle(build("Create", receiver, Result=IMAGE), context)
    assert len(services.builds) == 1
    ecr.put_image(repositoryName="repository", imageManifest=MANIFEST, imageTag=HASH)
    handler.handle(build("Create", receiver, Result=IMAGE), context)
    assert len(services.builds) == 1
    assert [item.get("UniqueId") for item in receiver.bodies] == [None, HASH, None]


def test_an_image_that_sagemaker_refuses_is_no_result(
    aws: None, services: Services, receiver: Receiver, context: Context
) -> None:
    ecr: Any = boto3.client("ecr")
    ecr.create_repository(repositoryName="repository")
    oci = MANIFEST.replace("vnd.docker.distribution.manifest.v2", "vnd.oci.image.manifest.v1")
    ecr.put_image(repositoryName="repository", imageManifest=oci, imageTag=HASH)
    handler.handle(build("Create", receiver, Result=IMAGE), context)
    assert len(services.builds) == 1


@pytest.mark.parametrize("key", ["model.safetensors", "manifest.json.tmp", "sub/manifest.json"])
def test_a_prefix_without_its_manifest_is_no_result(
    key: str, bucket: str, services: Services, receiver: Receiver, context: Context
) -> None:
    boto3.client("s3").put_object(Bucket=bucket, Key=f"weights/sentiment/{HASH}/{key}", Body=b"x")
    handler.handle(build("Create", receiver), context)
    assert len(services.builds) == 1


def test_an_empty_manifest_is_no_result(bucket: str, services: Services, receiver: Receiver, context: Context) -> None:
    boto3.client("s3").put_object(Bucket=bucket, Key=f"weights/sentiment/{HASH}/manifest.json", Body=b"")
    handler.handle(build("Create", receiver), context)
    assert len(services.builds) == 1


@pytest.mark.parametrize("code", sorted(handler.LIMIT_ERRORS | handler.PERMISSION_ERRORS))
def test_patience(
    code: str, bucket: str, services: Services, receiver: Receiver, context: Context, no_pauses: list[float]
) -> None:
    services.errors = [code, code]
    handler.handle(build("Create", receiver), context)
    assert len(services.builds) == 1
    assert no_pauses == [5, 10]
    assert receiver.bodies[0]["Status"] == "SUCCESS"


@pytest.mark.parametrize("code", sorted(handler.PERMISSION_ERRORS))
def test_patience_with_the_look_for_the_result(
    code: str,
    services: Services,
    receiver: Receiver,
    context: Context,
    no_pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The role has just been given the prefix, and the policy takes seconds to arrive."""
    refusals = [ClientError({"Error": {"Code": code}}, "ListObjectsV2")]

    def look(_: str) -> bool:
        if refusals:
            raise refusals.pop()
        return False

    monkeypatch.setattr(handler, "result_exists", look)
    handler.handle(build("Create", receiver), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS"
    assert len(services.builds) == 1 and no_pauses == [5]


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "InvalidInputException"])
def test_no_patience_with_what_stays_wrong(
    code: str, bucket: str, services: Services, receiver: Receiver, context: Context, no_pauses: list[float]
) -> None:
    services.errors = [code]
    handler.handle(build("Create", receiver), context)
    assert receiver.bodies[0]["Status"] == "FAILED"
    assert code in receiver.bodies[0]["Reason"]
    assert not no_pauses


def test_an_answer_before_the_function_ends(bucket: str, services: Services, receiver: Receiver) -> None:
    services.errors = ["AccountLimitExceededException"] * 100
    handler.handle(build("Create", receiver), Context(remaining_ms=61_000))
    (answer,) = receiver.bodies
    assert answer["Status"] == "FAILED"
    assert "AccountLimitExceededException" in answer["Reason"]


@pytest.mark.parametrize(
    "changes", [{"Kind": "lambda"}, {"Result": "ftp://host/x"}, {"Result": "s3://no-such-bucket/x/"}]
)
def test_every_request_is_answered(
    changes: dict[str, object], bucket: str, services: Services, receiver: Receiver, context: Context
) -> None:
    handler.handle(build("Create", receiver, **changes), context)
    (answer,) = receiver.bodies
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("cannot start the job: ")


def test_the_answer_is_repeated_until_it_arrives(
    bucket: str, services: Services, receiver: Receiver, context: Context, no_pauses: list[float]
) -> None:
    receiver.refuse_next = 3
    handler.handle(build("Delete", receiver), context)
    assert len(receiver.bodies) == 1
    assert no_pauses == [1, 2, 4]


def test_an_answer_that_never_arrives_fails_the_function(
    bucket: str, services: Services, receiver: Receiver, context: Context
) -> None:
    receiver.refuse_next = 5
    with pytest.raises(OSError, match="503"):
        handler.handle(build("Delete", receiver), context)


def test_only_http_is_answered() -> None:
    from torchlift.handlers._shared.cfn_response import put_json

    with pytest.raises(ValueError, match="not an HTTP address"):
        put_json("file:///etc/passwd", {})


def test_the_same_event_twice_is_one_build(
    bucket: str, services: Services, receiver: Receiver, context: Context
) -> None:
    """Lambda may deliver an event twice; CodeBuild knows the token."""
    for _ in range(2):
        handler.handle(build("Create", receiver), context)
    assert len({call["idempotencyToken"] for call in services.builds}) == 1
