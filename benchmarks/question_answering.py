"""P1: the question-answering server on one core, MiniLM on the CPU, beside a loop without a server and the original."""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import qa_servers as servers
from benchmarks.harness import RESULTS, Comparison, Value, of_pairs, of_values
from benchmarks.load import Load
from model_code.question_answering.compiled import CompiledModel

BATCHES = "1,2,4,8,16"
LENGTHS = "32,48,64,96,128"
CONNECTIONS = 32  # enough that a batch of 16 waits while another runs
ORIGINAL = "the original: padded to 128, one by one, on the event loop"
OURS = "and in batches of 1 to 16"
TABLES = RESULTS.parent / "benchmarks"


def against_loop(kind: str, length: int, *, rows: int, together: int = 1, repeats: int = 5) -> Comparison:
    """P1a: rows per second over HTTP / by tokenizing and running alone, in the batch size that is best for it.

    :param together: rows of one request
    """
    pairs = servers.rows_of(length, rows)
    with _model(kind) as base:
        folder = servers.compiled(base, batch_sizes=BATCHES, lengths=str(length))
        torch.set_num_threads(1)
        model = CompiledModel(folder)

        def loop() -> float:
            return rows / min(
                servers.raw_seconds(model, pairs, batch=batch, length=length) for batch in model.shapes.batch_sizes
            )

        requests = [servers.body(*pairs[at : at + together]) for at in range(0, rows, together)]
        connections = max(4, CONNECTIONS // together)
        with servers.serving("uvicorn", folder) as server:
            measured = []
            for _ in range(repeats + 1):
                measured.append((together * _rate(server.load(requests, connections=connections)), loop()))
    return of_pairs(measured[1:], unit="rows per second", command="make bench ONLY=P1a")


def against_original(pairs: list[servers.Pair], *, name: str, repeats: int = 5) -> Comparison:
    """P1b: our server / the original's design, by the GET path that both have.

    The steps from one to the other, and other server programs, are in a table: printed, written and drawn.

    :param name: of the two files
    """
    requests = [servers.path(pair) for pair in pairs]
    found: dict[str, list[Load]] = {}
    with _model("minilm") as base, contextlib.ExitStack() as stack:
        padded = servers.compiled(base, batch_sizes="1", lengths="128")
        lengths = servers.compiled(base, batch_sizes="1", lengths=LENGTHS)
        whole = servers.compiled(base, batch_sizes=BATCHES, lengths=LENGTHS)
        steps = {
            ORIGINAL: ("original", padded),
            "an inference thread of its own": ("uvicorn", padded),
            f"and padded to {LENGTHS.replace(',', ', ')}": ("uvicorn", lengths),
            OURS: ("uvicorn", whole),
            "the same under hypercorn": ("hypercorn", whole),
            "the same under granian": ("granian", whole),
        }
        running = {step: stack.enter_context(servers.serving(*what)) for step, what in steps.items()}
        for _ in range(repeats + 1):
            for step, server in running.items():
                found.setdefault(step, []).append(server.load(requests, connections=CONNECTIONS, probe=True))
    measured = {step: loads[1:] for step, loads in found.items()}
    show({step: summary(loads) for step, loads in measured.items()}, TABLES / f"question_answering_{name}")
    rates = [(_rate(one), _rate(two)) for one, two in zip(measured[OURS], measured[ORIGINAL], strict=True)]
    return of_pairs(rates, unit="rows per second", command="make bench ONLY=P1b")


def health(*, rows: int = 300, repeats: int = 5) -> Value:
    """P1c: p99 of GET /healthz in milliseconds while the queue is never empty."""
    requests = [servers.body(pair) for pair in servers.mixed(rows)]
    with (
        _model("minilm") as base,
        servers.serving("uvicorn", servers.compiled(base, batch_sizes=BATCHES, lengths=LENGTHS)) as server,
    ):
        measured = [server.load(requests, connections=CONNECTIONS, probe=True) for _ in range(repeats + 1)]
    return of_values([p99(load.probes) for load in measured[1:]], unit="ms", command="make bench ONLY=P1c")


def show(rows: dict[str, dict[str, float]], path: Path) -> None:
    """Print the table, and write it as JSON and as a picture."""
    for name, row in rows.items():
        print(f"  {name:60} " + "  ".join(f"{key} {value:g}" for key, value in row.items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(rows, indent=2) + "\n")
    draw(rows, path.with_suffix(".svg"))


def summary(loads: list[Load]) -> dict[str, float]:
    """Medians over the repeats."""
    return {
        "rows_per_second": round(statistics.median(map(_rate, loads)), 1),
        "p50_ms": round(statistics.median(statistics.median(load.milliseconds) for load in loads), 1),
        "p99_ms": round(statistics.median(p99(load.milliseconds) for load in loads), 1),
        "healthz_p99_ms": round(statistics.median(p99(load.probes) for load in loads), 1),
    }


def draw(rows: dict[str, dict[str, float]], path: Path) -> None:
    """Two panels of bars: rows per second, and the p99 of /healthz."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    names = list(rows)[::-1]
    for place, (key, title) in enumerate(
        {"rows_per_second": "rows per second", "healthz_p99_ms": "p99 of /healthz under load, ms (log)"}.items()
    ):
        axes = figure.add_subplot(1, 2, place + 1)
        bars = axes.barh(names, [rows[name][key] for name in names], color="#4477aa")
        axes.bar_label(bars, fmt="%g", padding=3)
        axes.set_title(title, fontsize=10)
        axes.margins(x=0.15)
        if key == "healthz_p99_ms":
            axes.set_xscale("log")
        if place:
            axes.set_yticks([])
    figure.savefig(path)


def p99(values: list[float]) -> float:
    """The smallest value that at least 99 of 100 do not exceed."""
    return sorted(values)[-(-99 * len(values) // 100) - 1]


def _rate(load: Load) -> float:
    return len(load.milliseconds) / load.seconds


@contextlib.contextmanager
def _model(kind: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield servers.make_model(Path(folder), kind)
