"""The demo's text encoding: what it checks, shows and leaves out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from stand_in.demo import tables, text_encoding, without
from stand_in.demo.invocations import SentimentResult, WrongAnswers
from stand_in.demo.run import Results, write_report
from stand_in.demo.text_encoding import ADDED, EncoderResult
from stand_in.sweep import Leftovers

ROOT = Path(__file__).resolve().parents[2]


def result(model: str, *, start: float = 1.0, paraphrase: float = 0.8) -> EncoderResult:
    return EncoderResult(
        model=model, served_by="Triton 2.51.0", first_ms=900.0, binary_ms=5.0, json_ms=7.5,
        vector=np.array([start, 0.5], np.float32), paraphrase=paraphrase, unrelated=0.2,
    )  # fmt: skip


def test_copies_alike_and_other_weights_otherwise_are_right() -> None:
    text_encoding.check([result("encoder-0"), result("encoder-1"), result(ADDED, start=2, paraphrase=0.1)])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ([result("encoder-0"), result("encoder-1", start=2)], "copies and answer differently"),
        ([result("encoder-0"), result(ADDED)], "weights of its own"),
        ([result("encoder-0", paraphrase=0.1)], "no closer"),
    ],
)
def test_wrong_answers_stop_the_demo(wrong: list[EncoderResult], reason: str) -> None:
    with pytest.raises(WrongAnswers, match=reason):
        text_encoding.check(wrong)


def test_the_derivation_is_what_the_job_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        f"export\n{text_encoding.DIFFERENCE}\n--- a\n+++ b\n@@ -1 +1 @@\n-platform\n+backend\nencoder-0: 1\n"
    )

    class Told:
        def get(self, _: str) -> Any:
            return {"jobs": [{"job": "text-encoding-engine", "log": str(log)}]}

    assert text_encoding.derivation(Told()) == ["--- a", "+++ b", "@@ -1 +1 @@", "-platform", "+backend"]  # type: ignore[arg-type]


def test_report_and_table_have_an_entry_for_each_model(tmp_path: Path) -> None:
    sentiment = SentimentResult(
        served_by="TorchServe 0.12.0", label="positive", score=0.9, latency_ms=12.5,
        metrics={"held_out_accuracy": 0.9}, reviews_right=23, reviews=24, wrong=[],
    )  # fmt: skip
    results = Results(
        mode="direct", seconds={"total": 2.0}, stacks=[{"name": "a", "status": "b", "resources": 1}],
        sentiment=sentiment, encoders=[result("encoder-0"), result(ADDED)], leftovers=Leftovers(found=[], scheduled=[]),
    )  # fmt: skip
    write_report(results, tmp_path / "report.json")
    entries = json.loads((tmp_path / "report.json").read_text())["workloads"]["text-encoding"]
    assert [entry["prediction"]["model"] for entry in entries] == ["encoder-0", ADDED]
    console = Console(record=True, width=120)
    tables.show(results, console)
    printed = console.export_text()
    assert "encoder-0" in printed and "Triton 2.51.0, on the CPU" in printed and "900.0 ms" in printed


def test_without_triton_text_encoding_is_left_out_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "deployments").mkdir()
    (tmp_path / "build" / "demo").mkdir(parents=True)
    text = (ROOT / "deployments" / "dev.toml").read_text()
    (tmp_path / "deployments" / "dev.toml").write_text(text)
    console = Console(record=True, width=120)
    path = without.deployable("dev", root=tmp_path, console=console)
    assert "left out" in console.export_text()
    left = tomllib.loads(Path(path).read_text())
    whole = tomllib.loads(text)
    assert whole.pop("text_encoding") and left == whole
    venv = tmp_path / ".venvs" / "triton" / "lib" / "python3.11" / "site-packages" / "pytriton"
    venv.mkdir(parents=True)
    assert without.deployable("dev", root=tmp_path, console=console) == "dev"
