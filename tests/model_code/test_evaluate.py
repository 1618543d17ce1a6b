"""Scoring a saved model again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from model_code.sentiment.evaluate import main


def test_scores_are_those_the_training_reported(
    trained: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "scores.json"
    assert main(["--model", str(trained), "--data", str(data), "--report", str(report)]) == 0
    found = json.loads(report.read_text())
    held_out = json.loads((trained / "metrics.json").read_text())["held_out"]
    assert {name: found[name] for name in held_out} == held_out
    assert (found["size"], found["labels"]) == (20, ["negative", "positive"])
    printed = capsys.readouterr().out
    assert f"accuracy      {held_out['accuracy']:.4f}" in printed
    assert "test: 20 sentences" in printed
    row = next(line for line in printed.splitlines() if line.startswith("negative"))
    assert list(map(int, row.split()[1:])) == held_out["confusion_matrix"][0]


def test_a_model_for_other_labels_is_not_scored(
    trained: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copytree(data, tmp_path / "data"))
    (other / "mapping.txt").write_text("1\tnegative\n0\tpositive\n")
    assert main(["--model", str(trained), "--data", str(other)]) == 2
    assert "the model's labels are ['negative', 'positive']" in capsys.readouterr().err


def test_a_missing_split_or_model_is_one_line(
    trained: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copytree(data, tmp_path / "data"))
    (other / "test_text.txt").unlink()
    (other / "test_labels.txt").unlink()
    assert main(["--model", str(trained), "--data", str(other)]) == 2
    assert "has no split test" in capsys.readouterr().err
    assert main(["--model", str(tmp_path), "--data", str(data)]) == 2
    assert "no config.json there" in capsys.readouterr().err
