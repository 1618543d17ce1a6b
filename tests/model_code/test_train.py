"""Training on tiny models: what it learns, writes, repeats, resumes and refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import datasets
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

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
    assert report["data"]["sizes"] == {"train": 177, "val": 20, "test": 20}
    best = max(report["epochs"], key=lambda entry: entry["macro_recall"])
    assert report["best_epoch"] == best["epoch"]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    train: Train, trained: Path, tmp_path: Path
) -> None:
    assert train(tmp_path / "again") == 0
    assert train(tmp_path / "other", "--seed", "43") == 0
    assert same(trained, tmp_path / "again" / "output")
    assert not same(trained, tmp_path / "other" / "output")


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


def test_a_diverging_training_is_one_line(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, "--learning-rate", "1e30") == 2
    assert "lower learning_rate (1e+30 now)\n" in capsys.readouterr().err
    assert not (tmp_path / "output").exists()


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


def without_layer(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({name: tensors[name] for name in tensors if "layer.1." not in name}, folder / "model.safetensors")


def without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


BASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda b: (b / "config.json").unlink(), "no config.json there"),
    "config is no JSON": (lambda b: (b / "config.json").write_text("{"), "is not a valid JSON file"),
    "config of nothing": (lambda b: (b / "config.json").write_text("{}"), "Unrecognized model"),
    "no weights": (lambda b: (b / "model.safetensors").unlink(), "no file named model.safetensors"),
    "torn weights": (lambda b: (b / "model.safetensors").write_bytes(b"torn"), "cannot be loaded"),
    "a layer short": (without_layer, "16 of the encoder's weights are missing, such as bert.encoder.layer.1."),
    "no tokenizer": (
        without_tokenizer,
        "the tokenizer has no vocabulary",
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_a_base_model_that_cannot_be_used_is_one_line(
    train: Train, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    breakage, message = BASES[name]
    folder = Path(shutil.copytree(base, tmp_path / "base"))
    breakage(folder)
    assert train(tmp_path, base_model=folder) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("train: ")]
    assert message in line
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("option", ["base_model", "data"])
def test_a_hub_that_does_not_answer_is_one_line(
    train: Train,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("no route\nto the hub")

    module = datasets if option == "data" else transformers.AutoConfig
    monkeypatch.setattr(module, "load_dataset" if option == "data" else "from_pretrained", refused)
    where = {"base_model": "base_model", "data": "data_folder"}[option]
    assert train(tmp_path, **{where: "hf://maker/thing@v1"}) == 2
    assert "no route to the hub\n" in capsys.readouterr().err


def test_a_pinned_model_of_the_hub_is_what_is_trained(
    train: Train, base: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers reads from the hub's cache; the revision must reach it every time."""
    asked = []
    for loader in (
        transformers.AutoConfig,
        transformers.AutoModelForSequenceClassification,
        transformers.AutoTokenizer,
    ):

        def load(name: Path | str, *, kept: Any = loader.from_pretrained, revision: str = "", **more: Any) -> Any:
            if name == tmp_path / "output":  # what was trained is read again
                return kept(name, **more)
            asked.append(revision)
            assert name in ("maker/model", base)
            return kept(base, revision=revision, **more)

        monkeypatch.setattr(loader, "from_pretrained", load)
    assert train(tmp_path, base_model="hf://maker/model@0123abc") == 0
    assert len(asked) >= 3 and set(asked) == {"0123abc"}
    assert same(trained, tmp_path / "output")


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


def test_two_ranks_do_what_one_does(train: Train, base: Path, data: Path, tmp_path: Path) -> None:
    """Also with the last batch, whose one sentence leaves a rank without any."""
    done = torchrun(2, tmp_path / "two", base, data, "--batch-size", "4", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert train(tmp_path / "one", "--epochs", "1") == 0
    one, two = weights(tmp_path / "one" / "output"), weights(tmp_path / "two" / "output")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-4, rtol=0)
    first, second = metrics(tmp_path / "one" / "output"), metrics(tmp_path / "two" / "output")
    assert json.loads((tmp_path / "two" / "output" / "run.json").read_text())["hardware"]["ranks"] == 2
    losses = [report["held_out"].pop("loss") for report in (first, second)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert second["held_out"] == first["held_out"]
    assert second["epochs"][0]["train_loss"] == pytest.approx(first["epochs"][0]["train_loss"], abs=1e-5)
    assert done.stdout.count("held out (test)") == 1, "only the first rank prints"


def test_bad_data_stops_every_rank_with_one_line(base: Path, tmp_path: Path) -> None:
    done = torchrun(2, tmp_path, base, tmp_path / "nowhere")
    assert done.returncode != 0
    assert done.stderr.count("train: ") == 1
    assert "nowhere: no such folder" in done.stderr


@pytest.mark.long  # a minute of compiling
@pytest.mark.timeout(900)
def test_torch_compile_trains_the_same(train: Train, tiny: ModuleType, tmp_path: Path) -> None:
    base = tiny.write_base(tmp_path / "base", dropout=0.0, layers=1)
    assert train(tmp_path / "eager", base_model=base) == 0
    assert train(tmp_path / "compiled", "--torch-compile", base_model=base) == 0
    eager, compiled = metrics(tmp_path / "eager" / "output"), metrics(tmp_path / "compiled" / "output")
    assert compiled["held_out"]["accuracy"] >= 0.9
    assert compiled["epochs"][0]["train_loss"] == pytest.approx(eager["epochs"][0]["train_loss"], abs=0.05)
    names = weights(tmp_path / "eager" / "output").keys()
    assert weights(tmp_path / "compiled" / "output").keys() == names, "no prefix of the compiled module"
