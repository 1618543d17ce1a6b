"""What a training cannot use is one line that says so, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import datasets
import pytest
import transformers
from safetensors.torch import load_file, save_file

Train = Callable[..., int]


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


@pytest.mark.parametrize(
    "wrong",
    [("--epochs", "0"), ("--learning-rate", "0"), ("--learning-rate", "nan"), ("--warmup-ratio", "1"),
     ("--batch-size", "-1"), ("--weight-decay", "x")],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(train: Train, tmp_path: Path, wrong: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        train(tmp_path, *wrong)
    assert stopped.value.code == 2
