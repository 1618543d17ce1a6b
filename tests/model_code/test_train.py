"""Training on tiny models: what it learns, writes and repeats, on one device and on several."""

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
import transformers

from model_code.sentiment import train as train_module
from tests.support.trained import metrics, same, weights

Train = Callable[..., int]


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
