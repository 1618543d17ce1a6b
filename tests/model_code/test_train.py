from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from model_code.sentiment import checkpoints
from model_code.sentiment import train as train_module

Train = Callable[..., int]


def weights(output: Path) -> dict[str, torch.Tensor]:
    return load_file(output / "model.safetensors")


def metrics(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "metrics.json").read_text())
    return found


def same(one: Path, other: Path) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_output_is_a_model_with_the_labels_of_the_data(trained: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    assert config["id2label"] == {"0": "negative", "1": "positive"}
    assert config["label2id"] == {"negative": 0, "positive": 1}
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert (trained / "tokenizer.json").is_file()


def test_the_tiny_task_is_learnt_and_reported(trained: Path) -> None:
    report = metrics(trained)
    assert [entry["epoch"] for entry in report["epochs"]] == [1, 2, 3]
    assert {"macro_recall", "macro_f1", "accuracy", "train_loss"} <= set(report["epochs"][0])
    assert report["held_out"]["split"] == "test"
    assert report["held_out"]["accuracy"] >= 0.9
    assert report["data"]["sizes"] == {"train": 116, "val": 20, "test": 20}
    assert report["arguments"]["learning_rate"] == 5e-3
    assert report["versions"]["torch"] == torch.__version__
    best = max(report["epochs"], key=lambda entry: entry["macro_recall"])
    assert report["best_epoch"] == best["epoch"]


def test_progress_lines_say_epoch_step_loss_speed_and_time_left(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, "--epochs", "1") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch 1/1 step 5/15 loss ")]
    assert len(lines) == 1
    assert "samples/s 00:0" in lines[0] and lines[0].endswith(" left")


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    train: Train, trained: Path, tmp_path: Path
) -> None:
    assert train(tmp_path / "again") == 0
    assert train(tmp_path / "other", "--seed", "43") == 0
    assert same(trained, tmp_path / "again" / "output")
    assert not same(trained, tmp_path / "other" / "output")


class Stopped(Exception):
    """Stands for a machine that goes away."""


# Saves of an epoch of 15 steps: four inside it, then the best weights, then the checkpoint at its end.
@pytest.mark.parametrize("stop_after", [2, 5, 6, 9])
def test_a_stopped_training_resumes_to_the_same_weights(
    train: Train, tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    base = tiny.write_base(tmp_path / "base", dropout=0.3)  # the dropout of the second half must be the same, too
    extra = ("--checkpoint-steps", "3")
    assert train(tmp_path / "whole", *extra, base_model=base) == 0

    kept, saves = checkpoints.save, []

    def save_then_stop(folder: Path, name: str, state: dict[str, Any]) -> None:
        kept(folder, name, state)
        saves.append(name)
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
        del one["seconds"], other["seconds"]
        assert one == other


def test_a_finished_training_only_writes_its_result_again(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path) == 0
    before = weights(tmp_path / "output")
    for file in (tmp_path / "output").iterdir():
        file.unlink()
    capsys.readouterr()
    assert train(tmp_path) == 0
    assert "resuming after step 45 of 45" in capsys.readouterr().out
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


def test_a_torn_checkpoint_never_takes_the_old_ones_place(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, checkpoints.LATEST, {"step": 1})

    def tear(path: Path) -> None:
        path.write_bytes(b"half of")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoints.write_atomically(tmp_path / checkpoints.LATEST, tear)
    assert checkpoints.load(tmp_path, checkpoints.LATEST, device=torch.device("cpu")) == {"step": 1}


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (lambda d: (d / "train_labels.txt").write_text("0\n"), "train_labels.txt:2"),
        (lambda d: (d / "mapping.txt").unlink(), "mapping.txt: no such file"),
    ],
)
def test_bad_data_is_one_line_not_a_traceback(
    train: Train,
    tiny: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    breakage: Callable[[Path], object],
    message: str,
) -> None:
    folder = tiny.write_data(tmp_path / "data")
    breakage(folder)
    assert train(tmp_path, data_folder=folder) == 2
    error = capsys.readouterr().err
    assert error.startswith("train: ") and message in error and error.count("\n") == 1


def test_a_folder_without_a_model_is_one_line(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, base_model=tmp_path) == 2
    assert "no config.json there" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [("--epochs", "0"), ("--learning-rate", "0"), ("--learning-rate", "nan"), ("--warmup-ratio", "1"),
     ("--batch-size", "-1"), ("--weight-decay", "x")],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(train: Train, tmp_path: Path, wrong: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        train(tmp_path, *wrong)
    assert stopped.value.code == 2


def test_help_explains_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        train_module.main(["--help"])
    text = capsys.readouterr().out
    for option in (
        "base-model", "data", "output", "checkpoints", "epochs", "learning-rate", "batch-size", "max-length",
        "weight-decay", "warmup-ratio", "seed", "torch-compile", "bf16", "fused-adamw",
    ):  # fmt: skip
        assert f"--{option}" in text
    assert "torchrun" in text


def test_bf16_and_fused_adamw_learn_the_task_too(train: Train, tmp_path: Path) -> None:
    assert train(tmp_path, "--bf16", "--fused-adamw") == 0
    assert metrics(tmp_path / "output")["held_out"]["accuracy"] >= 0.9
    assert all(value.dtype == torch.float32 for value in weights(tmp_path / "output").values())


def test_bf16_without_such_a_processor_says_so_and_trains(
    train: Train,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("model_code.sentiment.ranks.Ranks.has_bf16", lambda self: False)
    assert train(tmp_path, "--bf16") == 0
    assert "this cpu has no bfloat16: training in float32" in capsys.readouterr().out
    assert same(trained, tmp_path / "output")


def test_roberta_trains_up_to_its_last_position(train: Train, tiny: ModuleType, tmp_path: Path) -> None:
    base = tiny.write_base(tmp_path / "base", family="roberta")
    data = tiny.write_data(tmp_path / "data", labels=3)
    text = (data / "train_text.txt").read_text().splitlines()
    text[0] = " ".join(["good"] * 200)
    (data / "train_text.txt").write_text("\n".join(text) + "\n")
    assert train(tmp_path, "--max-length", "512", base_model=base, data_folder=data) == 0
    config = json.loads((tmp_path / "output" / "config.json").read_text())
    assert config["id2label"] == {"0": "negative", "1": "positive", "2": "neutral"}


def torchrun(ranks: int, work: Path, base: Path, data: Path, *extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
            "-m", "model_code.sentiment.train", "--base-model", str(base), "--data", str(data),
            "--output", str(work / "output"), "--checkpoints", str(work / "checkpoints"),
            "--epochs", "3", "--learning-rate", "5e-3", "--max-length", "32", *extra,
        ],
        capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_two_ranks_do_what_one_does(trained: Path, base: Path, data: Path, tmp_path: Path) -> None:
    done = torchrun(2, tmp_path / "even", base, data, "--batch-size", "4")
    assert done.returncode == 0, done.stderr
    one, two = weights(trained), weights(tmp_path / "even" / "output")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=2e-4, rtol=0)
    first, second = metrics(trained), metrics(tmp_path / "even" / "output")
    assert second["ranks"] == 2
    assert second["held_out"] == first["held_out"]
    assert second["epochs"][0]["train_loss"] == pytest.approx(first["epochs"][0]["train_loss"], abs=1e-4)
    assert done.stdout.count("held out (test)") == 1, "only the first rank prints"


def test_a_rank_without_a_sentence_in_the_last_batch_does_not_hang(
    train: Train, base: Path, tiny: ModuleType, tmp_path: Path
) -> None:
    data = tiny.write_data(tmp_path / "data", train=41)  # global batches of 8: the last has one sentence
    done = torchrun(2, tmp_path / "two", base, data, "--batch-size", "4", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert train(tmp_path / "one", "--epochs", "1", data_folder=data) == 0
    one, two = weights(tmp_path / "one" / "output"), weights(tmp_path / "two" / "output")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=2e-4, rtol=0)


def test_bad_data_stops_every_rank_with_one_line(base: Path, tmp_path: Path) -> None:
    done = torchrun(2, tmp_path, base, tmp_path / "nowhere")
    assert done.returncode != 0
    assert done.stderr.count("train: ") == 1
    assert "nowhere: no such folder" in done.stderr


@pytest.mark.long  # a minute of compiling
def test_torch_compile_trains_the_same(train: Train, trained: Path, tmp_path: Path) -> None:
    assert train(tmp_path, "--torch-compile") == 0
    report = metrics(tmp_path / "output")
    assert report["held_out"]["accuracy"] >= 0.9
    assert weights(tmp_path / "output").keys() == weights(trained).keys(), "no prefix of the compiled module"
    first = report["epochs"][0]["train_loss"]
    assert first == pytest.approx(metrics(trained)["epochs"][0]["train_loss"], abs=0.05)
