"""probe.json: what to ask an endpoint, and whether what it answers is right. No call to AWS here.

    {"schema": 1, "content_type": "application/json", "tolerance": 0.05, "labels": ["negative", ...],
     "cases": [{"request": {"inputs": ["text", ...]},
                "answer": [[{"label": "positive", "score": 0.9}, ...], ...]}]}

`answer` holds every label of each text by falling score, within `tolerance` (0 to 1); null when nobody knows the
answers: then the labels must be `labels` and the scores probabilities.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
# Scores are rounded when they are written down.
SUM_TOLERANCE = 0.01

Scores = dict[str, float]
"""One text's answer: {label: score}, by falling score."""


class UnusableProbe(ValueError):
    """A probe.json that has another form."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request, and what must come back for each of its texts.

    :param expected: one per text; empty when only the form is known
    """

    request: bytes
    texts: int
    expected: Sequence[Scores]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Everything to ask one variant."""

    content_type: str
    tolerance: float
    labels: frozenset[str]
    cases: Sequence[Case]

    def mismatch(self, case: Case, body: bytes, *, first: int = 1) -> str | None:
        """What is wrong with the answer `body`, in words; None when it is right."""
        return mismatch(case, body, labels=self.labels, tolerance=self.tolerance, first=first)


def parse(document: bytes) -> Probe:
    """Read a probe.json. Raises UnusableProbe."""
    try:
        probe = json.loads(document)
        if probe["schema"] != SCHEMA:
            raise UnusableProbe(f"its schema is {probe['schema']!r}, not {SCHEMA}")
        parsed = Probe(
            content_type=str(probe["content_type"]),
            tolerance=float(probe["tolerance"]),
            labels=frozenset(map(str, probe.get("labels") or ())),
            cases=[_case(one) for one in probe["cases"]],
        )
    except UnusableProbe:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnusableProbe(f"{type(error).__name__}: {error}") from error
    if not parsed.cases or not 0 <= parsed.tolerance < 1:
        raise UnusableProbe("it has no cases, or a tolerance that is not from 0 to 1")
    if not parsed.labels and not all(case.expected for case in parsed.cases):
        raise UnusableProbe("it has neither answers nor labels")
    return parsed


def _case(case: Mapping[str, Any]) -> Case:
    inputs = case["request"]["inputs"]
    texts = len(inputs) if isinstance(inputs, list) else 1
    expected = [] if case["answer"] is None else [_scores(row) for row in case["answer"]]
    if not texts or (expected and len(expected) != texts) or (case["answer"] is not None and not all(expected)):
        raise UnusableProbe(f"a case has {texts} texts and {len(expected)} answers")
    return Case(request=json.dumps(case["request"]).encode(), texts=texts, expected=expected)


def _scores(row: Sequence[Mapping[str, Any]]) -> Scores:
    found = {str(one["label"]): float(one["score"]) for one in row}
    if len(found) != len(row):
        raise ValueError("a label twice")
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def mismatch(case: Case, body: bytes, *, labels: frozenset[str], tolerance: float, first: int = 1) -> str | None:
    """What is wrong with the answer `body`, in words; None when it is right.

    :param first: the number of the case's first text, for the message
    """
    try:
        given = [_scores(row) for row in json.loads(body)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"text {first}: expected labels with scores, given {body[:80]!r}"
    if len(given) != case.texts:
        return f"text {first}: expected {case.texts} answers, given {len(given)}"
    for position, scores in enumerate(given):
        if case.expected:
            wrong = _differs(case.expected[position], scores, tolerance)
            wanted = _written(case.expected[position])
        else:
            wrong = not _plausible(scores, labels)
            wanted = f"scores of {', '.join(sorted(labels))} that add up to 1"
        if wrong:
            return f"text {first + position}: expected {wanted}, given {_written(scores)}"
    return None


def _differs(expected: Scores, given: Scores, tolerance: float) -> bool:
    """Whether labels or scores differ, or the best label does where the model was sure of it."""
    if expected.keys() != given.keys():
        return True
    # Not `>`: that is false of NaN, which is no answer at all.
    if not all(abs(given[label] - score) <= tolerance for label, score in expected.items()):
        return True
    best, *others = expected
    sure = not others or expected[best] - expected[others[0]] > 2 * tolerance
    return sure and next(iter(given)) != best


def _plausible(scores: Scores, labels: frozenset[str]) -> bool:
    in_range = all(0 <= score <= 1 for score in scores.values())
    return scores.keys() == labels and in_range and math.isclose(sum(scores.values()), 1, abs_tol=SUM_TOLERANCE)


def _written(scores: Scores) -> str:
    """At most five labels, short enough for a stack's event."""
    parts = [f"{ascii(label[:30])[1:-1]} {score:.3f}" for label, score in list(scores.items())[:5]]
    return ", ".join(parts) + (", ..." if len(scores) > 5 else "") or "no labels"
