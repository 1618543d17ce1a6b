"""Measure two things in one run, alternating, and keep the ratio: absolute times differ too much between machines."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "build" / "benchmarks.json"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`ratio` is the median of ours / other over the repeats; `low` and `high` are its extremes."""

    ratio: float
    unit: str
    low: float
    high: float
    ours: float
    other: float
    repeats: int
    command: str

    def __str__(self) -> str:
        unit = "s" if self.unit == "seconds" else self.unit
        return (
            f"ours {self.ours:.3g} {unit}, other {self.other:.3g} {unit} (medians of {self.repeats}): "
            f"ratio {self.ratio:.3g} ({self.low:.3g} to {self.high:.3g})"
        )


@dataclass(frozen=True, kw_only=True)
class Value:
    """A figure that is compared with nothing: the median of the repeats and its extremes."""

    value: float
    unit: str
    low: float
    high: float
    repeats: int
    command: str

    def __str__(self) -> str:
        return f"{self.value:.3g} {self.unit} ({self.low:.3g} to {self.high:.3g}, {self.repeats} repeats)"


def seconds(work: Callable[[], None]) -> float:
    """Wall-clock time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(ours: Callable[[], None], other: Callable[[], None], *, repeats: int, command: str) -> Comparison:
    """Run both in turn, once unmeasured and then `repeats` times."""
    ours()
    other()
    pairs = [(seconds(ours), seconds(other)) for _ in range(repeats)]
    return of_pairs(pairs, unit="seconds", command=command)


def of_pairs(pairs: Sequence[tuple[float, float]], *, unit: str, command: str) -> Comparison:
    """From (ours, other) of each repeat, measured one after the other."""
    ratios = [one / two for one, two in pairs]
    return Comparison(
        ratio=round(statistics.median(ratios), 3),
        unit=unit,
        low=round(min(ratios), 3),
        high=round(max(ratios), 3),
        ours=round(statistics.median(one for one, _ in pairs), 4),
        other=round(statistics.median(two for _, two in pairs), 4),
        repeats=len(pairs),
        command=command,
    )


def of_values(values: Sequence[float], *, unit: str, command: str) -> Value:
    """From the figure of each repeat."""
    return Value(
        value=round(statistics.median(values), 3),
        unit=unit,
        low=round(min(values), 3),
        high=round(max(values), 3),
        repeats=len(values),
        command=command,
    )


def record(id: str, result: Comparison | Value, path: Path = RESULTS) -> None:
    """Merge one result into build/benchmarks.json, whole or not at all."""
    document = json.loads(path.read_text()) if path.exists() else {}
    document[id] = asdict(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    temporary.replace(path)
