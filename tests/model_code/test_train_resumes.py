"""A training that was stopped goes on to the same weights, and only from its own checkpoints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import pytest
import torch

from model_code.sentiment import checkpoints
from tests.support.trained import metrics, same, weights

Train = Callable[..., int]


class Stopped(Exception):
    """Stands for a machine that goes away."""


# Saves of an epoch of 23 steps: seven inside it, then one at its end.
@pytest.mark.parametrize("stop_after", [2, 8, 13])
def test_a_stopped_training_resumes_to_the_same_weights(
    train: Train, tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    base = tiny.write_base(tmp_path / "base", dropout=0.3)  # the dropout of the second half must be the same, too
    extra = ("--checkpoint-steps", "3")
    assert train(tmp_path / "whole", *extra, base_model=base) == 0

    kept, saves = checkpoints.save, []

    def save_then_stop(folder: Path, step: int, state: dict[str, Any]) -> None:
        kept(folder, step, state)
        saves.append(step)
        if len(saves) == stop_after:
            raise Stopped

    monkeypatch.setattr(checkpoints, "save", save_then_stop)
    with pytest.raises(Stopped):
        train(tmp_path / "parts", *extra, base_model=base)
    monkeypatch.setattr(checkpoints, "save", kept)
    assert not (tmp_path / "parts" / "output").exists()
    assert train(tmp_path / "parts", *extra, base_model=base) == 0
    assert same(tmp_path / "whole" / "output", tmp_path / "parts" / "output")
    whole, parts = metrics(tmp_path / "whole" / "output"), metrics(tmp_path / "parts" / "output")
    for one, other in zip(whole["epochs"], parts["epochs"], strict=True):
        assert one == other


def test_a_killed_training_resumes_to_the_same_weights(
    train: Train, trained: Path, base: Path, data: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable, "-m", "model_code.sentiment.train", "--base-model", str(base), "--data", str(data),
        "--output", str(tmp_path / "output"), "--checkpoints", str(tmp_path / "checkpoints"), "--epochs", "3",
        "--learning-rate", "5e-3", "--batch-size", "8", "--max-length", "32", "--checkpoint-steps", "1",
    ]  # fmt: skip
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE) as process:
        limit = time.monotonic() + 120
        while not list(tmp_path.glob("checkpoints/step-*")) and time.monotonic() < limit:
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    (tmp_path / "checkpoints" / ".step-00000068").mkdir()  # what a kill may leave: not to be taken for a checkpoint
    assert train(tmp_path) == 0
    assert same(trained, tmp_path / "output")


def test_a_finished_training_only_writes_its_result_again(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path) == 0
    before = weights(tmp_path / "output")
    for file in (tmp_path / "output").iterdir():
        file.unlink()
    capsys.readouterr()
    assert train(tmp_path) == 0
    assert "resuming after step 69 of 69" in capsys.readouterr().out
    after = weights(tmp_path / "output")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_checkpoint_of_another_recipe_or_other_data_is_refused(
    train: Train, tiny: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path) == 0
    assert train(tmp_path, "--learning-rate", "1e-3") == 2
    assert "learning_rate was 0.005, is 0.001" in capsys.readouterr().err
    assert train(tmp_path, data_folder=tiny.write_data(tmp_path / "other", seed=9)) == 2
    assert "data was" in capsys.readouterr().err


def test_a_torn_checkpoint_never_takes_the_old_ones_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"identity": {}, "step": 1}
    checkpoints.save(tmp_path, 1, state)

    def tear(_: object, file: BinaryIO) -> None:
        file.write(b"half of")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", tear)
        with pytest.raises(OSError, match="disk full"):
            checkpoints.save(tmp_path, 2, {"identity": {}, "step": 2})
    assert checkpoints.load_latest(tmp_path, identity={}) == state
    checkpoints.save(tmp_path, 2, {"identity": {}, "step": 2})
    assert checkpoints.load_latest(tmp_path, identity={}) == {"identity": {}, "step": 2}


def test_the_two_latest_checkpoints_are_kept_and_steps_are_numbers(tmp_path: Path) -> None:
    for step in (9, 10, 123456789):
        checkpoints.save(tmp_path, step, {"identity": {}, "step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-123456789"]
    assert checkpoints.load_latest(tmp_path, identity={}) == {"identity": {}, "step": 123456789}
