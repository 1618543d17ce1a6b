"""Custom::VerifyEndpoint: the endpoint has the stack's configuration in service, and every variant answers right.

SageMaker rolls a failed update back, and the endpoint is in service again; alarms hear nothing without traffic; a
first deployment has no old fleet to roll back to. So the stack asks.

Only creation does anything: each configuration is a resource of its own. A rollback leaves the old configuration's
resource alone, and an update in the middle of a rollback would look at an endpoint that is not back yet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from torchlift.handlers._shared.cfn_response import answering
from torchlift.handlers.verify_endpoint import probe as probes
from torchlift.handlers.verify_endpoint import vectors

# A scaling activity that began at once; an update of the service itself.
IN_BETWEEN = {"Creating", "Updating", "SystemUpdating", "RollingBack"}
STATUS_PAUSE_S = 10.0
PATIENCE_S = 150.0
# SageMaker answers ModelNotReadyException after 60 s, and goes on downloading and loading for 360 s (developer guide,
# "Invoke a Multi-Model Endpoint"); then one more question must fit.
LOADING_PATIENCE_S = 540.0
# Longer than a period of the alarms, so that our own questions never fail twice in one. Rung by them, the alarm that
# rolls updates back would also turn the stack's way back into a rollback.
PAUSE_S = 65.0
# Kept back for a last question of ONE_ATTEMPT's 75 s, and for the answer to CloudFormation.
RESERVE_S = 105.0
# Errors of InvokeEndpoint (API reference) that go away: the service's own, and a model that is not quite there.
PASSING = {
    "InternalDependencyException",
    "InternalFailure",
    "ModelNotReadyException",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
}
# SageMaker ends an invocation after 60 s.
ONE_ATTEMPT = Config(connect_timeout=10, read_timeout=65, retries={"total_max_attempts": 1})


class NotRight(Exception):
    """What the stack's event says about an endpoint that must not stay."""


def handle(event: Mapping[str, Any], context: Any) -> None:
    """Answer one request of CloudFormation; never leave it without an answer."""
    with answering(event, task="verify the endpoint", told=NotRight):
        if event["RequestType"] == "Create":
            deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - RESERVE_S
            verify(event["ResourceProperties"], deadline=deadline)


def verify(properties: Mapping[str, Any], *, deadline: float) -> None:
    """Look at the endpoint and ask each variant. Raises NotRight.

    :param properties: Endpoint and Config (names), Variants: [{Name, Probe: s3://bucket/key, TargetModel: optional}]
    :param deadline: on the monotonic clock; no retry begins after it
    """
    endpoint = str(properties["Endpoint"])
    _in_service(endpoint, str(properties["Config"]), deadline)
    many = any("TargetModel" in variant for variant in properties["Variants"])
    until = min(deadline, time.monotonic() + (LOADING_PATIENCE_S if many else PATIENCE_S))
    for variant in properties["Variants"]:
        model = variant.get("TargetModel")
        where = f"endpoint {endpoint}, variant {variant['Name']}" + (f", model {model}" if model else "")
        # A multi-model endpoint has one variant, and its requests name the model.
        target = {"TargetModel": model} if model else {"TargetVariant": variant["Name"]}
        first = _answers(_probe(variant["Probe"]), endpoint, target, where=where, until=until)
        print(f"variant {variant['Name']}: {first - 1} texts answered right")


def _answers(
    probe: probes.Probe | vectors.Probe, endpoint: str, target: Mapping[str, str], *, where: str, until: float
) -> int:
    """Ask everything; returns the number of the text after the last one. Raises NotRight."""
    first = 1
    for case in probe.cases:
        body = _ask(endpoint, target, probe.content_type, case.request, where=where, until=until)
        wrong = probe.mismatch(case, body, first=first)  # type: ignore[arg-type]  # a probe's own cases
        if wrong:
            raise NotRight(f"{where}, {wrong}")
        first += case.texts
    return first


def _in_service(endpoint: str, config: str, deadline: float) -> None:
    sagemaker: Any = boto3.client("sagemaker")
    while True:
        held = sagemaker.describe_endpoint(EndpointName=endpoint)
        if held["EndpointStatus"] not in IN_BETWEEN or time.monotonic() + STATUS_PAUSE_S > deadline:
            break
        time.sleep(STATUS_PAUSE_S)
    told = f": {held['FailureReason']}" if held.get("FailureReason") else ""
    if held["EndpointStatus"] != "InService":
        raise NotRight(f"endpoint {endpoint} is {held['EndpointStatus']}, not InService{told}")
    if held["EndpointConfigName"] != config:
        raise NotRight(
            f"endpoint {endpoint} serves {held['EndpointConfigName']}, not {config}: SageMaker rolled the update "
            f"back{told}"
        )


def _probe(uri: str) -> probes.Probe | vectors.Probe:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    s3: Any = boto3.client("s3")
    try:
        document = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except s3.exceptions.NoSuchKey as error:
        raise NotRight(
            f"there is no {uri}: packages of an older release have none; publish the version again"
        ) from error
    try:
        return vectors.parse(document) if vectors.is_one(document) else probes.parse(document)
    except probes.UnusableProbe as error:
        raise NotRight(f"{uri} cannot be used: {error}") from error


def _ask(
    endpoint: str, target: Mapping[str, str], content_type: str, request: bytes, *, where: str, until: float
) -> bytes:
    runtime: Any = boto3.client("sagemaker-runtime", config=ONE_ATTEMPT)
    while True:
        try:
            answer = runtime.invoke_endpoint(
                EndpointName=endpoint,
                **target,
                ContentType=content_type,
                Accept=content_type,
                Body=request,
            )
            return bytes(answer["Body"].read())
        except (ClientError, BotoCoreError) as error:
            if not _passes(error) or time.monotonic() + PAUSE_S > until:
                raise NotRight(f"{where} does not answer: {error}") from error
            print(f"{where}: {error}: again in {PAUSE_S:.0f} s")
        time.sleep(PAUSE_S)


def _passes(error: ClientError | BotoCoreError) -> bool:
    """Whether it makes sense to ask again: not when the model itself refuses the request.

    A container that does not answer in 60 s has status 0 ("Received server error (0) from primary").
    """
    if not isinstance(error, ClientError):
        return True  # no connection, no answer in time
    response: Mapping[str, Any] = error.response
    code = str(response["Error"]["Code"])
    return code in PASSING or (code == "ModelError" and not 400 <= int(response.get("OriginalStatusCode", 500)) < 500)
