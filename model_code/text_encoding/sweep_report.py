"""What a precision sweep found: the rule, report.json, report.md and report.png."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_code.text_encoding.differences import Difference
from model_code.text_encoding.engine import Engine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 1
RULE = (
    "The precision that encodes the most texts a second at the optimum shape, among those whose every vector has at "
    "least the cosine similarity {least:g} to float32."
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A precision that was built. Times in milliseconds a batch; `machine` is what trtexec saw; NaN: not a number."""

    precision: str
    texts_per_second: float
    latency_p50_ms: float
    latency_p99_ms: float
    plan_bytes: int
    similarity: float
    largest_difference: float
    machine: Mapping[str, str]
    shape: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A precision that was not."""

    precision: str
    reason: str


def measured(engine: Engine, found: Difference, *, plan_bytes: int) -> Measured:
    """A row from what trtexec measured, which stands in engine.json, and the difference."""
    latency, batch = engine.measured["latency_ms"], engine.shapes.optimum[0]
    return Measured(
        precision=engine.precision,
        texts_per_second=engine.measured["throughput_qps"] * batch,
        latency_p50_ms=latency.get("p50", latency["median"]),
        latency_p99_ms=latency["p99"],
        plan_bytes=plan_bytes,
        similarity=found.similarity,
        largest_difference=found.largest,
        machine={"gpu": engine.gpu, "driver": engine.driver, "tensorrt": engine.tensorrt, "cuda": engine.cuda},
        shape=engine.shapes.optimum,
    )


def recommended(rows: Sequence[Measured | Failed], *, least: float) -> str | None:
    """The precision that the rule picks; None when none is close enough. NaN is not."""
    close = [row for row in rows if isinstance(row, Measured) and row.similarity >= least]
    return max(close, key=lambda row: row.texts_per_second).precision if close else None


def report(rows: Sequence[Measured | Failed], *, samples: int, least: float) -> dict[str, Any]:
    """The content of report.json."""
    built = [row for row in rows if isinstance(row, Measured)]
    return {
        "schema": SCHEMA,
        "machine": dict(built[0].machine) if built else {},
        "shape": list(built[0].shape) if built else [],
        "samples": samples,
        "rule": RULE.format(least=least),
        "least_similarity": least,
        "recommended": recommended(rows, least=least),
        "precisions": [_row(row) for row in rows],
    }


def _row(row: Measured | Failed) -> dict[str, Any]:
    """A row for JSON, which knows no NaN; what all rows share stands above them."""
    found = {key: value for key, value in asdict(row).items() if key not in ("machine", "shape")}
    odd = [key for key, value in found.items() if isinstance(value, float) and not math.isfinite(value)]
    return found | dict.fromkeys(odd)


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """Write report.md and report.png, and report.json last. Without matplotlib there is no picture, and it is said."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(markdown(report) + "\n", encoding="utf-8")
    try:
        save(picture(report), folder / "report.png")
    except ImportError as error:
        print(f"sweep: no report.png: {error}", file=sys.stderr)
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def markdown(report: Mapping[str, Any]) -> str:
    """The report for people."""
    machine = report["machine"]
    where = "Nothing was built."
    if machine:
        batch, sequence = report["shape"]
        where = (
            f"{machine['gpu']}, driver {machine['driver']}, TensorRT {machine['tensorrt']}; batches of {batch} texts "
            f"of {sequence} tokens; {report['samples']} texts compared."
        )
    head = ["precision", "texts/s", "p50 ms", "p99 ms", "plan MB", "lowest similarity", "largest difference"]
    lines = ["# Precision sweep", "", where, "", f"| {' | '.join(head)} |", "|---" + "|---:" * 6 + "|"]
    for row in report["precisions"]:
        if "reason" in row:
            lines.append(f"| {row['precision']} | not built: {' '.join(row['reason'].split())} |" + " |" * 5)
            continue
        lines.append(
            f"| {row['precision']} | {row['texts_per_second']:.0f} | {row['latency_p50_ms']:.2f} | "
            f"{row['latency_p99_ms']:.2f} | {row['plan_bytes'] / 1e6:.0f} | {_number(row['similarity'], '.5f')} | "
            f"{_number(row['largest_difference'], '.2g')} |"
        )
    picked = report["recommended"]
    verdict = f"Recommended: **{picked}**." if picked else "Recommended: none, none is close enough."
    return "\n".join([*lines, "", verdict, report["rule"]])


def picture(report: Mapping[str, Any]) -> Figure:
    """Texts a second and latency of each precision that was built, side by side."""
    from matplotlib.figure import Figure

    rows = [row for row in report["precisions"] if "reason" not in row]
    names = [row["precision"] for row in rows]
    figure = Figure(figsize=(8.5, 3.8), layout="constrained")
    speed, delay = figure.subplots(1, 2)
    colours = ["#d95f02" if name == report["recommended"] else "#1f77b4" for name in names]
    bars = speed.bar(names, [row["texts_per_second"] for row in rows], color=colours, width=0.6)
    speed.bar_label(bars, [f"similarity\n{_number(row['similarity'], '.4f')}" for row in rows], fontsize=9, padding=2)
    speed.set_ylabel("texts a second")
    speed.margins(y=0.2)
    delay.bar(names, [row["latency_p99_ms"] for row in rows], color="#bbbbbb", width=0.6, label="p99")
    delay.bar(names, [row["latency_p50_ms"] for row in rows], color=colours, width=0.6, label="median")
    delay.set_ylabel("milliseconds a batch")
    delay.legend(frameon=False)
    for axes in (speed, delay):
        axes.spines[["top", "right"]].set_visible(False)
    machine = report["machine"]
    figure.suptitle(
        f"{machine['gpu']}, TensorRT {machine['tensorrt']}, {report['shape'][0]} x {report['shape'][1]} tokens; "
        f"recommended: {report['recommended'] or 'none'}" if machine else "Nothing was built",
        fontsize=11,
    )  # fmt: skip
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a PNG, without the time or the library's version in it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _number(value: float | None, form: str) -> str:
    return "no number" if value is None else format(value, form)
