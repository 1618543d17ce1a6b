"""Ask a fleet: one question about one context, over HTTP. Standard library only."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

SECONDS = 65
"""A little more than the server lets a request wait at most."""


class AskError(RuntimeError):
    """The fleet refused the question, or its answer is none; str() is its own sentence.

    :param status: the HTTP status
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class UnreachableError(OSError):
    """Nothing answers at the address; str() says why."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`text` is context[start:end]; empty when the context does not answer the question.

    :param score: probability of this answer, or of there being none
    :param milliseconds: that the server took
    """

    text: str
    score: float
    start: int
    end: int
    has_answer: bool
    model: str
    core: int
    milliseconds: float


def ask(
    url: str,
    question: str,
    context: str,
    *,
    model: str | None = None,
    token: str | None = None,
    seconds: float = SECONDS,
) -> Answer:
    """The answer of the fleet at `url` (http:// or https://, without a path).

    :param model: a model by name; None: one by weight
    :param token: bearer token, where the fleet wants one
    :raises AskError: the fleet refused
    :raises UnreachableError: it cannot be reached, or speaks no HTTP
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise UnreachableError(f"{url!r} is no address: expected http://… or https://…")
    body = {"question": question, "context": context, **({"model": model} if model else {})}
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/predict", data, headers)  # noqa: S310 - http(s), above
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:  # noqa: S310  # nosec B310 - http(s), above
            return _answer(response.read())
    except urllib.error.HTTPError as error:
        raise AskError(error.code, _sentence(error.read(), error.code)) from None
    except urllib.error.URLError as error:
        reason = error.reason
        told = reason.verify_message if isinstance(reason, ssl.SSLCertVerificationError) else reason
        raise UnreachableError(f"{url} cannot be reached: {told}") from None
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url} cannot be reached: {error or type(error).__name__}") from None


def _answer(body: bytes) -> Answer:
    try:
        found: dict[str, Any] = json.loads(body)
        kept = {key: found[key] for key in ("text", "score", "start", "end", "has_answer", "model", "core")}
        return Answer(**kept, milliseconds=float(found["timings"]["total"]))
    except (ValueError, TypeError, KeyError):
        raise AskError(200, f"not an answer of a question-answering fleet: {body[:200]!r}") from None


def _sentence(body: bytes, status: int) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, TypeError, KeyError):
        return f"HTTP {status} without a reason"
