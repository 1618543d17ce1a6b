"""How a custom resource answers CloudFormation: by PUT to a presigned URL, with an empty Content-Type."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# CloudFormation reads at most 4096 bytes of an answer.
MAX_REASON_CHARACTERS = 1000
ATTEMPTS = 5


def physical_id(event: Mapping[str, Any]) -> str:
    """Return the resource's own id, or on creation one that later requests will repeat."""
    given = event.get("PhysicalResourceId")
    return str(given) if given else f"{event['LogicalResourceId']}-{str(event['RequestId'])[:8]}"


def respond(
    event: Mapping[str, Any], *, success: bool, reason: str = "", data: Mapping[str, str] | None = None
) -> None:
    """Answer the request in ``event``.

    :param reason: shown to the user when ``success`` is false
    :raises OSError: the answer could not be delivered
    """
    body = {
        "Status": "SUCCESS" if success else "FAILED",
        "Reason": _shortened(reason),
        "PhysicalResourceId": physical_id(event),
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": dict(data or {}),
    }
    print(f"{event['RequestType']} {event['LogicalResourceId']}: {body['Status']} {body['Reason']}")
    put_json(str(event["ResponseURL"]), body)


@contextmanager
def answering(event: Mapping[str, Any], *, task: str, told: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Answer the request when the block ends: with success, or with what it raised. Never leaves it without an answer.

    :param task: what the block does, such as "empty the bucket"; begins the reason of a failure
    :param told: exceptions whose message is a whole reason of its own
    :raises OSError: the answer could not be delivered
    """
    try:
        yield
    except told as error:
        respond(event, success=False, reason=str(error))
    except Exception as error:  # whatever it is, the stack must hear of it
        respond(event, success=False, reason=f"cannot {task}: {type(error).__name__}: {error}")
    else:
        respond(event, success=True)


def _shortened(reason: str) -> str:
    """The reason's start that takes 1000 characters as JSON, in which one character may become twelve."""
    while len(json.dumps(reason)) - 2 > MAX_REASON_CHARACTERS:
        reason = reason[: min(MAX_REASON_CHARACTERS, len(reason) - 1)]
    return reason


def put_json(url: str, body: Mapping[str, Any], *, pause_s: float = 1.0) -> None:
    """PUT ``body`` to a presigned URL; repeat on failure, each time after twice the pause.

    The Content-Type must be empty: it is part of the signature, and anything else is answered with 403.

    :raises OSError: all attempts failed
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError("the address to answer to is not an HTTP address")
    for attempt in range(1, ATTEMPTS + 1):
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
            url, data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
        )
        try:
            with urllib.request.urlopen(request, timeout=20):  # noqa: S310
                return
        except OSError:
            if attempt == ATTEMPTS:
                raise
            time.sleep(pause_s * 2 ** (attempt - 1))
