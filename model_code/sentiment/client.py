"""Ask a sentiment endpoint. Standard library only; boto3 is needed to send, and only then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from model_code.sentiment.protocol import JSON, RequestError


@dataclass(frozen=True)
class Judgement:
    """One label for a text, with its probability (0 to 1)."""

    label: str
    score: float


class AnswerError(ValueError):
    """An answer that is not what the endpoint promises."""


def build_request(texts: Sequence[str], *, top_k: int | None = None) -> bytes:
    """The body to send for `texts`; `top_k` limits the labels named for each."""
    if isinstance(texts, str):
        raise TypeError("give a list of texts")
    body: dict[str, Any] = {"inputs": list(texts)}
    if top_k is not None:
        body["parameters"] = {"top_k": top_k}
    return json.dumps(body, ensure_ascii=False).encode("utf-8")


def parse_answer(body: bytes, *, texts: int) -> list[list[Judgement]]:
    """Judgements of each of `texts` texts, best first. Raises AnswerError."""
    try:
        rows = [[Judgement(str(one["label"]), float(one["score"])) for one in row] for row in json.loads(body)]
    except (ValueError, TypeError, KeyError) as error:
        raise AnswerError(f"not an answer of a sentiment endpoint: {body[:200]!r}") from error
    if len(rows) != texts or not all(rows):
        raise AnswerError(f"{texts} texts were sent, {len(rows)} answers came back")
    return rows


def ask(
    endpoint: str,
    texts: Sequence[str],
    *,
    top_k: int | None = None,
    variant: str | None = None,
    client: Any = None,
) -> list[list[Judgement]]:
    """Judgements of `texts` by a SageMaker endpoint; `client` is a boto3 sagemaker-runtime client.

    `variant` asks that production variant, whatever the weights say.

    Raises RequestError with the endpoint's own sentence when it refuses the request.
    """
    if client is None:
        import boto3

        client = boto3.client("sagemaker-runtime")
    target = {} if variant is None else {"TargetVariant": variant}
    try:
        answer = client.invoke_endpoint(
            EndpointName=endpoint, Body=build_request(texts, top_k=top_k), ContentType=JSON, Accept=JSON, **target
        )
    except client.exceptions.ModelError as error:
        raise _refusal(error.response) from error
    return parse_answer(answer["Body"].read(), texts=len(texts))


def _refusal(response: dict[str, Any]) -> RequestError:
    """What the model said, from the response of SageMaker's ModelError."""
    said = str(response.get("OriginalMessage", ""))
    try:
        said = str(json.loads(said)["error"])
    except (ValueError, TypeError, KeyError):
        said = said or str(response.get("Error", {}).get("Message", "the endpoint gave no reason"))
    return RequestError(int(response.get("OriginalStatusCode", 500)), said)
