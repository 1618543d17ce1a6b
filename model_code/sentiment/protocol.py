"""What the endpoint accepts and answers; standard library only, so client and server share it.

Requests, always UTF-8:
- `application/json`:      {"inputs": "text"}  or  {"inputs": ["text", ...], "parameters": {"top_k": 1}}
- `application/jsonlines`: a JSON value a line, "text" or {"inputs": "text"}; at most one newline at the end.
- `text/plain`:            the body is one text.
Answers, chosen by the Accept header with its q-values. Without one, and when both are as welcome: JSON lines
to JSON lines, else JSON.
- `application/json`:      [[{"label": "positive", "score": 0.98}, {"label": "negative", "score": 0.02}]]
- `application/jsonlines`: the inner lists, one a line, no newline at the end.
    One list per text, in order, also for a single text; each holds labels by falling score. Without `top_k`
    every label is there, and the scores of a text add up to 1.
Error, `application/json`:  {"error": "one sentence"} with status 400, 406, 413 or 415.

SageMaker Batch Transform: ContentType and Accept `application/jsonlines`, SplitType and AssembleWith `Line`; a line
that is refused fails its whole mini-batch, and the sentence names it. Data capture: list both JSON types as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

JSON = "application/json"
JSON_LINES = "application/jsonlines"
TEXT = "text/plain"
# Content type → what to say to an empty body.
EXAMPLES = {
    JSON: 'send {"inputs": "text"}',
    JSON_LINES: 'send lines such as {"inputs": "text"}',
    TEXT: "send one text",
}
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
    kind = kind_of_content(content_type)
    if not body:
        raise RequestError(400, f"The body is empty; {EXAMPLES[kind]}.")
    size = len(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body)
    if size > MAX_BODY_BYTES:
        raise RequestError(413, f"The body has {size} bytes; at most {MAX_BODY_BYTES} are allowed.")
    try:
        text = body if isinstance(body, str) else bytes(body).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(400, "The body is not valid UTF-8.") from None
    if kind == JSON:
        return _parse_json(text, max_texts)
    texts = _parse_lines(text, max_texts) if kind == JSON_LINES else [_text(text, "The body")]
    return Request(texts)


def format_answer(labels: Sequence[str], scores: Sequence[Sequence[float]], top_k: int | None, kind: str = JSON) -> str:
    """The answer's body: `scores` has a row per text and a column per label; `kind` is JSON or JSON_LINES."""
    answer = []
    for row in scores:
        ranked = sorted(zip(labels, row, strict=True), key=lambda pair: -pair[1])[:top_k]
        answer.append([{"label": label, "score": score} for label, score in ranked])
    if kind == JSON_LINES:
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in answer)
    return json.dumps(answer, ensure_ascii=False)


def format_error(sentence: str) -> str:
    """The body of an error answer."""
    return json.dumps({"error": sentence}, ensure_ascii=False)


def kind_of_content(content_type: str | None) -> str:
    """JSON, JSON_LINES or TEXT by the Content-Type header. Raises RequestError (415)."""
    kind, *options = (piece.strip() for piece in (content_type or "").split(";"))
    if kind.lower() not in EXAMPLES:
        raise RequestError(415, f"Send the content type {', '.join(EXAMPLES)}, not {quote(kind or 'none')}.")
    for option in options:
        name, _, charset = option.replace(" ", "").lower().partition("=")
        if name == "charset" and charset.strip('"') not in ("utf-8", "utf8"):
            raise RequestError(415, f"Send UTF-8, not the character set {quote(charset)}.")
    return kind.lower()


def _parse_json(text: str, max_texts: int) -> Request:
    document = _load(text, "The body")
    if not isinstance(document, dict):
        raise RequestError(400, f"The body must be a JSON object, not {_kind(document)}.")
    unknown = sorted(set(document) - {"inputs", "parameters"})
    if unknown:
        raise RequestError(400, f"Unknown field {quote(unknown[0])}; there are 'inputs' and 'parameters'.")
    if "inputs" not in document:
        raise RequestError(400, "The field 'inputs' is missing.")
    return Request(_texts(document["inputs"], max_texts), _top_k(document.get("parameters")))


def _parse_lines(text: str, max_texts: int) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    if len(lines) > max_texts:
        raise RequestError(413, f"The body has {len(lines)} lines; at most {max_texts} are allowed.")
    texts = []
    for number, line in enumerate(lines, start=1):
        name = f"Line {number}"
        if not line.strip():
            raise RequestError(400, f"{name} is empty.")
        value = _load(line, name)
        if isinstance(value, dict):
            if set(value) != {"inputs"}:
                raise RequestError(400, f"{name} must have the field 'inputs' and no other.")
            value, name = value["inputs"], f"{name}'s 'inputs'"
        if not isinstance(value, str):
            raise RequestError(400, f"{name} must be a text, not {_kind(value)}.")
        texts.append(_text(value, name))
    return texts


def _load(text: str, name: str) -> Any:
    """The JSON value; NaN and repeated fields, which Python would let pass, are refused."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise RequestError(400, f"{name}'s JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(400, f"{name} is not valid JSON ({where}).") from None
    except _FieldTwice as error:
        raise RequestError(400, f"{name} has the field {quote(str(error))} twice.") from None
    except ValueError:  # a constant, or an integer with thousands of digits
        raise RequestError(400, f"{name} is not valid JSON.") from None


class _FieldTwice(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _FieldTwice(name)
        found[name] = value
    return found


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _texts(inputs: Any, max_texts: int) -> list[str]:
    texts = inputs if isinstance(inputs, list) else [inputs]
    if not texts:
        raise RequestError(400, "'inputs' is an empty list.")
    if len(texts) > max_texts:
        raise RequestError(413, f"'inputs' has {len(texts)} texts; at most {max_texts} are allowed.")
    for index, text in enumerate(texts):
        name = f"'inputs[{index}]'" if isinstance(inputs, list) else "'inputs'"
        if not isinstance(text, str):
            allowed = "a text" if isinstance(inputs, list) else "a text or a list of texts"
            raise RequestError(400, f"{name} must be {allowed}, not {_kind(text)}.")
        _text(text, name)
    return list(texts)


def _text(text: str, name: str) -> str:
    if not text.strip():
        raise RequestError(400, f"{name} is empty.")
    if len(text) > MAX_CHARACTERS:
        raise RequestError(413, f"{name} has {len(text)} characters; at most {MAX_CHARACTERS} are allowed.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise RequestError(400, f"{name} holds half of a surrogate pair, which is not valid Unicode.")
    return text


def _top_k(parameters: Any) -> int | None:
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise RequestError(400, f"'parameters' must be a JSON object, not {_kind(parameters)}.")
    unknown = sorted(set(parameters) - {"top_k"})
    if unknown:
        raise RequestError(400, f"Unknown parameter {quote(unknown[0])}; there is 'top_k'.")
    top_k = parameters.get("top_k")
    if top_k is None:
        return None
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise RequestError(400, "'top_k' must be a whole number of at least 1.")
    return top_k


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def quote(text: str) -> str:
    """A caller's words inside our sentence: short, on one line, plain ASCII."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")
