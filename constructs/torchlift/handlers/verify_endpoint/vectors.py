"""probe.json of an encoder: what to ask Triton, and whether the vectors are right. No call to AWS here.

    {"schema": 1, "format": "vectors", "content_type": "application/json", "least_similarity": 0.99,
     "cases": [{"request": {"inputs": [...], "outputs": [...]}, "output": "pooler_output",
                "vectors": [[0.1, ...], ...]}]}

One vector a text: the beginning of the text's share of the named output. Right is a cosine similarity of at least
`least_similarity` (0 to 1): an engine in half precision rounds, and a wrong one points elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchlift.handlers.verify_endpoint.probe import SCHEMA, UnusableProbe

FORMAT = "vectors"
Vector = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request, and what must come back for each of its texts."""

    request: bytes
    texts: int
    output: str
    expected: Sequence[Vector]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Everything to ask one variant."""

    content_type: str
    least_similarity: float
    cases: Sequence[Case]

    def mismatch(self, case: Case, body: bytes, *, first: int = 1) -> str | None:
        """What is wrong with the answer `body`, in words; None when it is right.

        :param first: the number of the case's first text, for the message
        """
        try:
            (found,) = [one for one in json.loads(body)["outputs"] if one["name"] == case.output]
            values = [float(value) for value in found["data"]]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return f"text {first}: expected output {case.output}, given {body[:80]!r}"
        share = len(values) // case.texts
        for position, expected in enumerate(case.expected):
            given = values[position * share : position * share + len(expected)]
            if len(given) != len(expected):
                return f"text {first + position}: expected {len(expected)} numbers, given {len(given)}"
            similarity = _cosine(expected, given)
            # Not `<`: that is false of NaN, which is no answer at all.
            if not similarity >= self.least_similarity:
                return (
                    f"text {first + position}: expected a vector like the model's own (cosine similarity "
                    f"{self.least_similarity:g} or more), given one of {similarity:.3f}"
                )
        return None


def is_one(document: bytes) -> bool:
    """Whether a probe.json says that it has this format."""
    try:
        return bool(json.loads(document)["format"] == FORMAT)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def parse(document: bytes) -> Probe:
    """Read a probe.json of this format. Raises UnusableProbe."""
    try:
        probe = json.loads(document)
        if probe["schema"] != SCHEMA:
            raise UnusableProbe(f"its schema is {probe['schema']!r}, not {SCHEMA}")
        parsed = Probe(
            content_type=str(probe["content_type"]),
            least_similarity=float(probe["least_similarity"]),
            cases=[_case(one) for one in probe["cases"]],
        )
    except UnusableProbe:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnusableProbe(f"{type(error).__name__}: {error}") from error
    if not parsed.cases or not 0 < parsed.least_similarity <= 1:
        raise UnusableProbe("it has no cases, or a least_similarity that is not above 0 and at most 1")
    return parsed


def _case(case: Mapping[str, Any]) -> Case:
    expected = [[float(value) for value in vector] for vector in case["vectors"]]
    if not expected or any(not math.hypot(*vector) for vector in expected):
        raise UnusableProbe("a case has no vectors, or one without a direction")
    request = json.dumps(case["request"]).encode()
    return Case(request=request, texts=len(expected), output=str(case["output"]), expected=expected)


def _cosine(one: Vector, other: Vector) -> float:
    """Not a number for a vector without a direction."""
    length = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / length if length else math.nan
