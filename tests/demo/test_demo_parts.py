"""The demo's own parts: lock, report, progress, data, sentences."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from stand_in.demo import data, tables
from stand_in.demo.invocations import SentimentResult
from stand_in.demo.lock import AlreadyRunning, exclusive
from stand_in.demo.progress import Progress
from stand_in.demo.run import Results, write_report
from stand_in.sweep import Leftovers

ROOT = Path(__file__).resolve().parents[2]


def results(*, found: list[str] | None = None) -> Results:
    sentiment = SentimentResult(
        served_by="TorchServe 0.12.0",
        label="positive",
        score=0.9,
        latency_ms=12.5,
        metrics={"held_out_accuracy": 0.9, "held_out_macro_recall": 0.9, "held_out_macro_f1": 0.9},
        reviews_right=23,
        reviews=24,
        wrong=["a (is negative, was called positive with 0.51)"],
    )
    return Results(
        mode="direct",
        seconds={"deploy": 1.0, "total": 2.0},
        stacks=[{"name": "Torchlift-local-Foundation", "status": "CREATE_COMPLETE", "resources": 49}],
        sentiment=sentiment,
        leftovers=Leftovers(found=found or [], scheduled=["kms/us-west-2/keys/1"]),
    )


def test_the_report_follows_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(results(), path)
    document = json.loads(path.read_text())
    assert document["workloads"]["sentiment"]["prediction"] == {"label": "positive", "score": 0.9}
    assert document["leftovers"] == []
    assert list(tmp_path.iterdir()) == [path]


def test_a_wrong_report_is_not_written(tmp_path: Path) -> None:
    wrong = results()
    wrong.seconds["deploy"] = "quick"  # type: ignore[assignment]
    with pytest.raises(jsonschema.ValidationError):
        write_report(wrong, tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_the_table_names_what_is_left() -> None:
    console = Console(record=True, width=120)
    tables.show(results(found=["s3/aws/buckets/forgotten"]), console)
    printed = console.export_text()
    assert "s3/aws/buckets/forgotten" in printed and "nothing" not in printed
    assert "TorchServe 0.12.0" in printed and "positive (0.90)" in printed and "23 of 24" in printed


def test_one_demo_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path / "demo.lock"), pytest.raises(AlreadyRunning), exclusive(tmp_path / "demo.lock"):
        pass
    with exclusive(tmp_path / "demo.lock"):
        pass


class Told:
    """A stand-in whose state a test decides."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"jobs": [], "endpoints": [], "processes": []}

    def get(self, path: str) -> Any:
        assert path == "/_torchlift/state"
        return self.state


def job(log: Path, state: str) -> dict[str, Any]:
    reason = "out of memory" if state == "failed" else ""
    return {
        "job": "train",
        "mode": "direct",
        "hash": "a",
        "kind": "build",
        "state": state,
        "seconds": 3,
        "log": str(log),
        "reason": reason,
    }


def test_progress_tells_each_change_once(tmp_path: Path) -> None:
    told, console = Told(), Console(record=True, width=60)
    log = tmp_path / "log"
    log.write_text("fetch\n" + "step 1 of a very long line " * 10 + '\n{"_aws": {"Timestamp": 1}}\n')
    old = job(tmp_path / "old", "succeeded") | {"job": "image"}
    told.state["jobs"] = [old]
    progress = Progress(console, told)  # type: ignore[arg-type]
    told.state["jobs"] = [old, job(log, "running")]
    progress.look()
    progress.look()
    told.state["jobs"] = [old, job(log, "failed")]
    progress.look()
    printed = console.export_text()
    assert printed.count("job train: running") == 1 and printed.count("train | step 1") == 1
    assert "job train: failed after 3 s: out of memory" in printed
    assert "image" not in printed and "_aws" not in printed
    assert all(len(line) <= 60 for line in printed.splitlines())


def test_two_dozen_sentences_of_both_kinds_share_no_eight_words_with_the_data() -> None:
    reviews = json.loads((ROOT / "stand_in/demo/review_sentences.json").read_text())
    assert len(reviews) == 24 and {review["label"] for review in reviews} == {"negative", "positive"}
    runs = {run for text, _ in data.read_fixtures(ROOT / "node_modules") for run in eight_word_runs(text)}
    assert len(runs) > 10_000
    for review in reviews:
        assert not runs.intersection(eight_word_runs(review["text"])), review["text"]


def eight_word_runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9']+", text.lower())
    return {tuple(words[at : at + 8]) for at in range(len(words) - 7)}
