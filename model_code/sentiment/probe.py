"""probe.json: requests that show whether an endpoint serves this very model. Standard library only.

    {"schema": 1, "content_type": "application/json", "tolerance": 0.05, "labels": ["negative", ...],
     "cases": [{"request": {"inputs": ["text", ...]},
                "answer": [[{"label": "positive", "score": 0.9}, ...], ...]}]}

`answer` is what the model said when it was trained: for each text every label by falling score. Null: nobody knows,
and only the answer's form can be checked. `tolerance` is how far a score may be off (0 to 1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model_code.sentiment import protocol

NAME = "probe.json"
SCHEMA = 1
# bfloat16 keeps 8 bits: scores of a model served in it move by up to a few hundredths.
TOLERANCE = 0.05
TEXTS = ("What a lovely day!", "The bus was late again, and nobody told us why.", "The shop opens at nine.")
# Scores are rounded when written down.
SUM_TOLERANCE = 0.01


class ProbeError(ValueError):
    """A probe.json that cannot be used; the message says what is wrong."""


def without_answers(labels: Sequence[str]) -> dict[str, Any]:
    """The probe of a model that brought none."""
    return {
        "schema": SCHEMA,
        "content_type": protocol.JSON,
        "tolerance": TOLERANCE,
        "labels": list(labels),
        "cases": [{"request": {"inputs": list(TEXTS)}, "answer": None}],
    }


def encode(probe: dict[str, Any]) -> bytes:
    """The file's bytes."""
    return (json.dumps(probe, ensure_ascii=False, indent=2) + "\n").encode("utf-8")


def of_weights(weights: Path, labels: Sequence[str]) -> bytes:
    """The probe to publish for the model in `weights`: its own, checked, or one without answers. Raises ProbeError."""
    path = weights / NAME
    if not path.is_file():
        return encode(without_answers(labels))
    content = path.read_bytes()
    try:
        check(json.loads(content.decode("utf-8")), labels)
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"{path}: {error}") from error
    return content


def check(probe: Any, labels: Sequence[str]) -> None:
    """Raise ProbeError when `probe` is not of the form above, or for a model with other labels."""
    if not isinstance(probe, dict):
        raise ProbeError("must be a JSON object")
    if probe.get("schema") != SCHEMA or isinstance(probe.get("schema"), bool):
        raise ProbeError(f"'schema' is {probe.get('schema')!r}, not {SCHEMA}")
    if probe.get("content_type") != protocol.JSON:
        raise ProbeError(f"'content_type' is {probe.get('content_type')!r}, not {protocol.JSON!r}")
    if not _is_probability(probe.get("tolerance")):
        raise ProbeError(f"'tolerance' is {probe.get('tolerance')!r}, not a number from 0 to 1")
    if probe.get("labels") != list(labels):
        raise ProbeError(f"'labels' are {probe.get('labels')!r}, but config.json has {list(labels)!r}")
    cases = probe.get("cases")
    if not isinstance(cases, list) or not cases:
        raise ProbeError("'cases' must be a list with at least one case")
    for index, case in enumerate(cases):
        if not isinstance(case, dict) or not {"request", "answer"} <= set(case):
            raise ProbeError(f"'cases[{index}]' must be an object with 'request' and 'answer'")
        try:
            request = protocol.parse_request(json.dumps(case["request"]), protocol.JSON, max_texts=protocol.MAX_TEXTS)
        except protocol.RequestError as error:
            raise ProbeError(f"'cases[{index}].request' would be refused: {error}") from error
        if case["answer"] is not None:
            _check_answer(case["answer"], request, labels, f"cases[{index}].answer")


def _check_answer(answer: Any, request: protocol.Request, labels: Sequence[str], name: str) -> None:
    if request.top_k is not None:
        raise ProbeError(f"'{name}' needs every label, so its request must have no 'top_k'")
    if not isinstance(answer, list) or len(answer) != len(request.texts):
        raise ProbeError(f"'{name}' must be null or a list of {len(request.texts)} answers, one per text")
    for row in answer:
        whole = isinstance(row, list) and all(
            isinstance(one, dict) and isinstance(one.get("label"), str) and _is_probability(one.get("score"))
            for one in row
        )
        if not whole or sorted(one["label"] for one in row) != sorted(labels):
            raise ProbeError(f"'{name}' must name every label once for each text, with a score from 0 to 1")
        scores = [one["score"] for one in row]
        if scores != sorted(scores, reverse=True) or not math.isclose(sum(scores), 1, abs_tol=SUM_TOLERANCE):
            raise ProbeError(f"'{name}': the scores of a text must fall, and add up to 1")


def _is_probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
