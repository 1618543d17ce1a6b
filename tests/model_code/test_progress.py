"""Progress lines and metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from model_code.sentiment.progress import UNITS, duration, embedded_metrics

LINE = re.compile(r"epoch 1/1  step \d+/23  loss \d\.\d{3}  learning rate \d\.\de-\d\d  [\d,]+ samples/s  \d+ s left")


def test_lines_say_epoch_step_loss_rate_speed_and_time_left(
    train: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHLIFT_DEPLOYMENT", raising=False)
    assert train(tmp_path, "--epochs", "1") == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if "samples/s" in line]
    assert len(lines) == 23 and all(LINE.fullmatch(line) for line in lines), lines
    assert lines[-1].endswith("  0 s left")
    assert "_aws" not in printed, "outside a deployment nobody reads metrics"


def test_a_deployment_gets_metrics_at_each_epoch(
    train: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHLIFT_DEPLOYMENT", "dev")
    monkeypatch.setenv("TORCHLIFT_JOB", "sentiment-train")
    assert train(tmp_path, "--log-seconds", "1000") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith('{"_aws"')]
    assert [entry["ProgressPercent"] for entry in found if "ProgressPercent" in entry] == [33.333333, 66.666667, 100.0]
    assert len([entry for entry in found if "ValidationMacroRecall" in entry]) == 3
    assert {(entry["Deployment"], entry["Job"]) for entry in found} == {("dev", "sentiment-train")}


def test_the_embedded_metric_format() -> None:
    """As CloudWatch's specification has it: every metric and dimension is a member of the root."""
    entry = json.loads(embedded_metrics(dict.fromkeys(UNITS, 0.5), dimensions={"Job": "j"}, at=1_700_000_000.25))
    assert entry["_aws"]["Timestamp"] == 1_700_000_000_250
    [directive] = entry["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Torchlift"
    assert directive["Dimensions"] == [["Job"]] and entry["Job"] == "j"
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == UNITS
    assert all(entry[name] == 0.5 for name in UNITS)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (721, "12 min"), (7199, "2 h 0 min"), (6000, "100 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
