"""InvokeEndpoint as the SageMaker runtime answers it, with a model server behind it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping

from stand_in.environment import ACCOUNT
from stand_in.executor.endpoint_servers import ServerSet
from stand_in.hooks import Answer

PASSED_ON = ("Content-Type", "Accept", "X-Amzn-Sagemaker-Custom-Attributes", "X-Amzn-Sagemaker-Target-Model")
"""Headers of the caller that the container sees, as `stand_in.server` spells them."""
PASSED_BACK = ("content-type", "x-amzn-sagemaker-custom-attributes")
TARGET_VARIANT = "X-Amzn-Sagemaker-Target-Variant"


def not_found(name: str) -> Answer:
    """The answer for an endpoint that is unknown or has never been in service."""
    return _refusal(f"Endpoint {name} of account {ACCOUNT} not found.")


def invoke(live: ServerSet, *, region: str, name: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """Send one invocation to a variant's server."""
    wanted = headers.get(TARGET_VARIANT, "")
    variant = live.choose(wanted)
    if variant is None:
        return _refusal(f"Variant {wanted} not found for endpoint {name}.")
    passed_on = {key: headers[key] for key in PASSED_ON if headers.get(key)}
    try:
        answer = variant.server.post(body, passed_on)
    except TimeoutError:
        message = "Your invocation timed out while waiting for a response from container primary."
        return _model_error(region, name, 0, message)
    except (OSError, http.client.HTTPException) as error:
        return _model_error(region, name, 503, f"Service Unavailable: {error}")
    if answer.status >= 400:
        return _model_error(region, name, answer.status, answer.body.decode(errors="replace"))
    back = {key: value for key, value in answer.headers.items() if key.lower() in PASSED_BACK}
    return Answer(status=200, body=answer.body, headers={**back, "x-Amzn-Invoked-Production-Variant": variant.name})


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


def _refusal(message: str) -> Answer:
    return _json(400, "ValidationError", {"ErrorCode": "VALIDATION_ERROR", "Message": message})


def _json(status: int, kind: str, document: Mapping[str, object]) -> Answer:
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": kind}
    return Answer(status=status, body=json.dumps(document).encode(), headers=headers)
