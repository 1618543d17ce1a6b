"""The Accept header (RFC 9110, 12.5.1): which of our two answer types the caller likes best."""

from __future__ import annotations

import re

from model_code.sentiment.protocol import JSON, JSON_LINES, RequestError, kind_of_content, quote

# 0 to 1 with at most three decimals; anything else is no q-value.
QVALUE = re.compile(r"q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


def choose_answer(accept: str | None, content_type: str | None) -> str:
    """JSON or JSON_LINES by the Accept header; without one, and when both are as welcome, by the request's own type.

    Raises RequestError: 406 when the header rules out both, 415 for a content type that is none of ours.
    """
    kinds = [JSON_LINES, JSON] if kind_of_content(content_type) == JSON_LINES else [JSON, JSON_LINES]
    if not (accept or "").strip():
        return kinds[0]
    ranges = _ranges(accept or "")
    wishes = {kind: _wish(kind, ranges) for kind in kinds}
    best = max(wishes, key=lambda kind: wishes[kind])  # the first of equals
    if wishes[best] <= 0:
        raise RequestError(
            406, f"The answer is {JSON} or {JSON_LINES}; the Accept header {quote(accept or '')} rules both out."
        )
    return best


def _ranges(accept: str) -> dict[str, float]:
    """Media range in lower case → its q-value; a q-value that is none counts as 0."""
    found: dict[str, float] = {}
    for part in accept.split(","):
        kind, *options = (piece.strip() for piece in part.split(";"))
        q = 1.0
        for option in options:
            if option.lower().startswith("q"):
                match = QVALUE.fullmatch(option)
                q = float(match.group(1)) if match else 0.0
        found[kind.lower()] = max(q, found.get(kind.lower(), 0.0))
    return found


def _wish(kind: str, ranges: dict[str, float]) -> float:
    """The q-value of the narrowest range that covers `kind`."""
    for name in (kind, kind.split("/")[0] + "/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0
