"""What the endpoint accepts and answers; standard library only, so client and server share it.

Request, `application/json`:   {"inputs": "text"}  or  {"inputs": ["text", ...], "parameters": {"top_k": 1}}
Answer, `application/json`:    [[{"label": "positive", "score": 0.98}, {"label": "negative", "score": 0.02}]]
    One list per text, in order, also for a single text; each holds labels by falling score. Without `top_k`
    every label is there, and the scores of a text add up to 1.
Error, `application/json`:     {"error": "one sentence"} with status 400, 406, 413 or 415.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

JSON = "application/json"
MAX_TEXTS = 64
MAX_CHARACTERS = 10_000
MAX_BODY_BYTES = 1_000_000


class RequestError(ValueError):
    """A request that is refused: `status` is an HTTP status 4xx, str() is one sentence for the caller."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Request:
    """Texts to judge, and how many labels to name for each (None: all)."""

    texts: list[str]
    top_k: int | None = None


def parse_request(body: str | bytes | bytearray | None, content_type: str | None, *, max_texts: int) -> Request:
    """The request in an HTTP body. Raises RequestError."""
    kind, _, options = (content_type or "").partition(";")
    if kind.strip().lower() != JSON:
        raise RequestError(415, f"Send the content type {JSON}, not {_quote(kind.strip() or 'none')}.")
    charset = options.replace(" ", "").lower().partition("charset=")[2].strip('"')
    if charset not in ("", "utf-8", "utf8"):
        raise RequestError(415, f"Send UTF-8, not the character set {_quote(charset)}.")
    if not body:
        raise RequestError(400, 'The body is empty; send {"inputs": "text"}.')
    size = len(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body)
    if size > MAX_BODY_BYTES:
        raise RequestError(413, f"The body has {size} bytes; at most {MAX_BODY_BYTES} are allowed.")
    try:
        document = json.loads(body if isinstance(body, str) else bytes(body).decode("utf-8"))
    except UnicodeDecodeError:
        raise RequestError(400, "The body is not valid UTF-8.") from None
    except RecursionError:
        raise RequestError(400, "The body's JSON is nested too deeply.") from None
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise RequestError(400, f"The body is not valid JSON{where}.") from None
    if not isinstance(document, dict):
        raise RequestError(400, f"The body must be a JSON object, not {_kind(document)}.")
    unknown = sorted(set(document) - {"inputs", "parameters"})
    if unknown:
        raise RequestError(400, f"Unknown field {_quote(unknown[0])}; there are 'inputs' and 'parameters'.")
    if "inputs" not in document:
        raise RequestError(400, "The field 'inputs' is missing.")
    return Request(_texts(document["inputs"], max_texts), _top_k(document.get("parameters")))


def check_accept(accept: str | None) -> None:
    """Raise RequestError (406) when an Accept header rules JSON out."""
    for part in (accept or JSON).split(","):
        kind, *options = (piece.strip().lower() for piece in part.split(";"))
        refused = any(piece.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for piece in options)
        if kind in (JSON, "application/*", "*/*") and not refused:
            return
    raise RequestError(406, f"The answer is {JSON}; the Accept header {_quote(accept or '')} rules it out.")


def format_answer(labels: Sequence[str], scores: Sequence[Sequence[float]], top_k: int | None) -> str:
    """The answer's JSON: `scores` has a row per text and a column per label."""
    answer = []
    for row in scores:
        ranked = sorted(zip(labels, row, strict=True), key=lambda pair: -pair[1])[:top_k]
        answer.append([{"label": label, "score": score} for label, score in ranked])
    return json.dumps(answer, ensure_ascii=False)


def format_error(sentence: str) -> str:
    """The body of an error answer."""
    return json.dumps({"error": sentence}, ensure_ascii=False)


def _texts(inputs: Any, max_texts: int) -> list[str]:
    texts = inputs if isinstance(inputs, list) else [inputs]
    if not texts:
        raise RequestError(400, "'inputs' is an empty list.")
    if len(texts) > max_texts:
        raise RequestError(413, f"'inputs' has {len(texts)} texts; at most {max_texts} are allowed.")
    for index, text in enumerate(texts):
        name = f"inputs[{index}]" if isinstance(inputs, list) else "inputs"
        if not isinstance(text, str):
            allowed = "a text" if isinstance(inputs, list) else "a text or a list of texts"
            raise RequestError(400, f"'{name}' must be {allowed}, not {_kind(text)}.")
        if not text.strip():
            raise RequestError(400, f"'{name}' is empty.")
        if len(text) > MAX_CHARACTERS:
            raise RequestError(413, f"'{name}' has {len(text)} characters; at most {MAX_CHARACTERS} are allowed.")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise RequestError(400, f"'{name}' holds half of a surrogate pair, which is not valid Unicode.")
    return list(texts)


def _top_k(parameters: Any) -> int | None:
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise RequestError(400, f"'parameters' must be a JSON object, not {_kind(parameters)}.")
    unknown = sorted(set(parameters) - {"top_k"})
    if unknown:
        raise RequestError(400, f"Unknown parameter {_quote(unknown[0])}; there is 'top_k'.")
    top_k = parameters.get("top_k")
    if top_k is None:
        return None
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise RequestError(400, "'top_k' must be a whole number of at least 1.")
    return top_k


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _quote(text: str) -> str:
    """A caller's words inside our sentence: short, on one line, plain ASCII."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")
