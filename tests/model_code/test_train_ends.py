"""How a training ends early, and the record of one that ends well."""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
import torch
from safetensors.torch import load_file

from model_code.sentiment import checkpoints, pictures
from model_code.sentiment.failures import STOPPED, explain
from model_code.sentiment.report import thin_out

Train = Callable[..., int]


def test_asked_to_stop_it_saves_the_step_and_resumes_to_the_same_weights(
    train: Train, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = []
    step_once = torch.optim.AdamW.step

    def step_then_signal(self: Any, *arguments: Any) -> Any:
        found = step_once(self, *arguments)
        steps.append(1)
        if len(steps) == 30:
            os.kill(os.getpid(), signal.SIGTERM)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", step_then_signal)
        assert train(tmp_path) == STOPPED == 143
    assert "asked to stop: saved after step 30 of 69" in capsys.readouterr().out
    assert not (tmp_path / "output").exists()
    assert train(tmp_path) == 0
    one, two = (load_file(folder / "model.safetensors") for folder in (trained, tmp_path / "output"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    [resume] = json.loads((tmp_path / "output" / "run.json").read_text())["resumes"]
    assert resume["after_step"] == 30


def test_a_loss_that_is_not_finite_is_never_saved(train: Train, tmp_path: Path) -> None:
    assert train(tmp_path, "--learning-rate", "1e30", "--checkpoint-steps", "5") == 2
    stored = [int(path.name.split("-")[1]) for path in (tmp_path / "checkpoints").glob("step-*")]
    assert all(torch.isfinite(_losses(tmp_path, step)).all() for step in stored)


def _losses(work: Path, step: int) -> torch.Tensor:
    state = torch.load(work / "checkpoints" / f"step-{step:08}" / checkpoints.STATE, weights_only=True)
    losses: torch.Tensor = state["losses"]
    return losses


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"), "batch_size (16 now)"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "the machine's memory ran out"),
        (MemoryError(), "the machine's memory ran out"),
        (OSError(errno.ENOSPC, "No space left on device"), "raise root_volume_gib"),
        (RuntimeError("[enforce fail at inline_container.cc:778] . PytorchStreamWriter failed"), "the disk is full"),
    ],
)
def test_what_can_be_put_right_is_one_sentence(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    error: Exception, sentence: str,
) -> None:  # fmt: skip
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(checkpoints, "save", fail)
    assert train(tmp_path, "--batch-size", "16") == 2
    [said] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("train: ")]
    assert sentence in said


def test_a_fault_of_the_program_is_not_explained_away() -> None:
    options = argparse.Namespace(batch_size=16, max_length=128)
    assert explain(RuntimeError("shapes do not match"), options) is None
    assert explain(OSError(errno.EACCES, "denied"), options) is None


def test_the_record_says_from_what_and_how(
    train: Train, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHLIFT_DATA", "hf://maker/tweets@0123abc")
    monkeypatch.setenv("TORCHLIFT_HASH", "0123456789abcdef")
    assert train(tmp_path, "--epochs", "2") == 0
    record = json.loads((tmp_path / "output" / "run.json").read_text())
    assert record["job"]["hash"] == "0123456789abcdef"
    assert record["data"]["source"] == "hf://maker/tweets@0123abc"
    assert {name: split["rows"] for name, split in record["data"]["splits"].items()} == {
        "train": 177, "val": 20, "test": 20,
    }  # fmt: skip
    assert record["base_model"]["source"] == "model", "no path of this machine"
    assert str(tmp_path) not in json.dumps(record)
    assert record["hyperparameters"]["learning_rate"] == 5e-3
    assert record["versions"]["torch"] == torch.__version__
    assert record["hardware"] == {**record["hardware"], "device": "cpu", "ranks": 1, "gpu": None}
    assert record["samples_per_second"] > 0 and record["seconds"] > 0
    assert [entry["epoch"] for entry in record["epochs"]] == [1, 2]
    assert record["resumes"] == []
    assert record["loss_curve"][-1][0] == record["steps"] == 46


def test_the_pictures_are_there_and_legible_in_size(trained: Path) -> None:
    for name in (pictures.LOSS_CURVE, pictures.CONFUSION_MATRIX):
        height, width = matplotlib.image.imread(trained / name).shape[:2]
        assert width >= 500 and height >= 400


def test_counts_and_shares_stand_in_the_matrix() -> None:
    held_out = {"split": "test", "accuracy": 0.7, "macro_recall": 0.65, "confusion_matrix": [[3, 1], [2, 4]]}
    [axes, _] = pictures.confusion_matrix(held_out, labels=["negative", "positive"]).axes
    assert [text.get_text() for text in axes.texts] == ["3\n75%", "1\n25%", "2\n33%", "4\n67%"]
    assert "10 sentences" in axes.get_title()


def test_a_picture_that_cannot_be_drawn_costs_no_training(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no font")

    monkeypatch.setattr(pictures, "save", fail)
    assert train(tmp_path, "--epochs", "1") == 0
    assert "the pictures could not be drawn: ValueError: no font" in capsys.readouterr().out
    assert (tmp_path / "output" / "metrics.json").is_file()


@pytest.mark.parametrize(("count", "points"), [(1, 1), (99, 99), (100, 100), (101, 51), (1234, 95)])
def test_the_curve_has_at_most_a_hundred_points_and_keeps_the_mean(count: int, points: int) -> None:
    curve = thin_out([float(number) for number in range(count)])
    assert len(curve) == points and curve[-1][0] == count
    starts = [0, *(end for end, _ in curve)]
    total = sum(mean * (end - start) for start, (end, mean) in zip(starts, curve, strict=False))
    assert total == pytest.approx(sum(range(count)))
