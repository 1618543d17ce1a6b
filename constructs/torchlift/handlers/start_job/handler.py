"""Custom::StartJob: starts a build or an instance once, unless the result is there.

Only creation does anything. An update or a rollback must never start work again, and removal leaves a running job to
its own deadline.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import boto3
from botocore.exceptions import ClientError

from torchlift.handlers._shared.cfn_response import answering
from torchlift.handlers._shared.results import hash_of, result_exists
from torchlift.handlers._shared.wait_handle import signal

T = TypeVar("T")

# Builds queue behind an account's limit; a new policy takes seconds to reach every service.
LIMIT_ERRORS = {"AccountLimitExceededException", "ThrottlingException", "Throttling", "ScalingActivityInProgress"}
PERMISSION_ERRORS = {"AccessDenied", "AccessDeniedException"}
PERMISSION_PATIENCE_S = 120.0
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0
# Kept back for the answer to CloudFormation.
RESERVE_S = 60.0


def handle(event: Mapping[str, Any], context: Any) -> None:
    """Answer one request of CloudFormation; never leave it without an answer."""
    with answering(event, task="start the job"):
        if event["RequestType"] == "Create":
            deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - RESERVE_S
            start(event["ResourceProperties"], request_id=event["RequestId"], deadline=deadline)


def start(properties: Mapping[str, Any], *, request_id: str, deadline: float) -> None:
    """Start what ``properties`` describe, or signal success at once when its result exists.

    :param deadline: on the monotonic clock; no retry begins after it
    """
    result = properties["Result"]
    if _retry(lambda: result_exists(result), deadline):
        signal(properties["Handle"], success=True, reason=f"{result} was there", unique_id=hash_of(result))
        return
    kind = properties["Kind"]
    if kind == "build":
        _retry(lambda: _start_build(properties, request_id), deadline)
    elif kind == "instance":
        _retry(lambda: _start_instance(properties["GroupName"]), deadline)
    else:
        raise ValueError(f"unknown kind of job '{kind}'")


def _start_build(properties: Mapping[str, Any], request_id: str) -> None:
    codebuild: Any = boto3.client("codebuild")
    environment = properties.get("Environment", {})
    build = codebuild.start_build(
        projectName=properties["ProjectName"],
        sourceTypeOverride="S3",
        sourceLocationOverride=properties["SourceLocation"],
        environmentVariablesOverride=[
            {"name": name, "value": str(value), "type": "PLAINTEXT"} for name, value in sorted(environment.items())
        ],
        timeoutInMinutesOverride=int(properties["BuildTimeoutMinutes"]),
        # Lambda may deliver an event twice.
        idempotencyToken=hashlib.sha256(request_id.encode()).hexdigest(),
    )
    print(f"started build {build['build']['id']}")


def _start_instance(group: str) -> None:
    autoscaling: Any = boto3.client("autoscaling")
    autoscaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=1, HonorCooldown=False)
    print(f"started group {group}")


def _retry(call: Callable[[], T], deadline: float) -> T:
    pause = FIRST_PAUSE_S
    permission_deadline = min(deadline, time.monotonic() + PERMISSION_PATIENCE_S)
    while True:
        try:
            return call()
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            give_up = {**dict.fromkeys(LIMIT_ERRORS, deadline), **dict.fromkeys(PERMISSION_ERRORS, permission_deadline)}
            if code not in give_up or time.monotonic() + pause > give_up[code]:
                raise
            print(f"{code}: again in {pause:.0f} s")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
