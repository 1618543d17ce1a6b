"""InvokeEndpoint as the SageMaker runtime answers it, with a model server behind it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from stand_in.environment import ACCOUNT
from stand_in.executor import endpoint_metrics
from stand_in.executor.data_capture import Captures, Content
from stand_in.executor.endpoint_fleet import Fleet
from stand_in.executor.servers import Refused
from stand_in.executor.site import Site
from stand_in.hooks import Answer

TARGET_MODEL = "X-Amzn-Sagemaker-Target-Model"
PASSED_ON = ("Content-Type", "Accept", "X-Amzn-Sagemaker-Custom-Attributes", TARGET_MODEL)
"""Headers of the caller that the container sees, as `stand_in.server` spells them."""
PASSED_BACK = ("content-type", "x-amzn-sagemaker-custom-attributes")
TARGET_VARIANT = "X-Amzn-Sagemaker-Target-Variant"
INVOKED_VARIANT = "x-Amzn-Invoked-Production-Variant"


def not_found(name: str) -> Answer:
    """The answer for an endpoint that is unknown or has never been in service."""
    return _refusal(f"Endpoint {name} of account {ACCOUNT} not found.")


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """What the caller gets, and how it came about.

    :param variant: empty when no variant was asked
    :param role: with which its container was made
    :param status: the container's HTTP status; 0 when it did not answer in time
    :param seconds: that the container took
    """

    answer: Answer
    variant: str = ""
    role: str = ""
    status: int = 0
    seconds: float = 0.0

    @property
    def content_type(self) -> str:
        """The answer's."""
        return next((value for key, value in self.answer.headers.items() if key.lower() == "content-type"), "")


class Runtime:
    """Answers invocations, and keeps what SageMaker keeps of them: metrics, and captured data."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._captures = Captures(site)

    def answer(self, live: Fleet, *, region: str, name: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one invocation."""
        began = time.monotonic()
        done = invoke(live, region=region, name=name, headers=headers, body=body)
        if not done.variant:
            return done.answer
        overhead = time.monotonic() - began - done.seconds
        endpoint_metrics.record(
            self._site,
            region=region,
            endpoint=name,
            variant=done.variant,
            status=done.status,
            model_s=done.seconds,
            overhead_s=overhead,
        )
        if done.answer.status == 200:
            self._captures.record(
                live.capture,
                region=region,
                endpoint=name,
                variant=done.variant,
                role=done.role,
                request=Content(type=headers.get("Content-Type", ""), body=body),
                answer=Content(type=done.content_type, body=done.answer.body),
            )
        return done.answer

    def flush(self) -> None:
        """Write captured data now."""
        self._captures.flush()


def invoke(live: Fleet, *, region: str, name: str, headers: Mapping[str, str], body: bytes) -> Invocation:
    """Send one invocation to a variant's server."""
    wanted = headers.get(TARGET_VARIANT, "")
    variant = live.choose(wanted)
    if variant is None:
        return Invocation(answer=_refusal(f"Variant {wanted} not found for endpoint {name}."))
    if TARGET_MODEL in headers and not variant.server.container.multi_model:
        message = f"Endpoint {name} is not a multi-model endpoint and does not support target model header."
        return Invocation(answer=_refusal(message))
    passed_on = {key: headers[key] for key in PASSED_ON if headers.get(key)}
    began = time.monotonic()
    status, answer = 0, None
    try:
        answer = variant.server.post(body, passed_on)
    except Refused as refused:
        return Invocation(answer=_refusal(str(refused), status=refused.status, kind=refused.kind))
    except TimeoutError:
        message = "Your invocation timed out while waiting for a response from container primary."
        told = _model_error(region, name, 0, message)
    except (OSError, http.client.HTTPException) as error:
        status = 503
        told = _model_error(region, name, status, f"Service Unavailable: {error}")
    seconds = time.monotonic() - began
    if answer is not None:
        status = answer.status
        back = {key: value for key, value in answer.headers.items() if key.lower() in PASSED_BACK}
        told = Answer(status=200, body=answer.body, headers={**back, INVOKED_VARIANT: variant.name})
        if status >= 400:
            told = _model_error(region, name, status, answer.body.decode(errors="replace"))
    role = variant.server.container.role
    return Invocation(answer=told, variant=variant.name, role=role, status=status, seconds=seconds)


def _model_error(region: str, name: str, status: int, original: str) -> Answer:
    group = f"/aws/sagemaker/Endpoints/{name}"
    side = "client" if 400 <= status < 500 else "server"
    message = (
        f'Received {side} error ({status}) from primary with message "{original}". See https://{region}.console.aws.'
        f"amazon.com/cloudwatch/home?region={region}#logEventViewer:group={group} in account {ACCOUNT} for more "
        "information."
    )
    document = {
        "ErrorCode": "CLIENT_ERROR_FROM_MODEL" if side == "client" else "INTERNAL_FAILURE_FROM_MODEL",
        "LogStreamArn": f"arn:aws:logs:{region}:{ACCOUNT}:log-group:{group}",
        "Message": message,
        "OriginalMessage": original,
        "OriginalStatusCode": status,
    }
    return _json(424, "ModelError", document)


def _refusal(message: str, *, status: int = 400, kind: str = "ValidationError") -> Answer:
    code = {"ErrorCode": "VALIDATION_ERROR"} if kind == "ValidationError" else {}
    return _json(status, kind, {**code, "Message": message})


def _json(status: int, kind: str, document: Mapping[str, object]) -> Answer:
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": kind}
    return Answer(status=status, body=json.dumps(document).encode(), headers=headers)
