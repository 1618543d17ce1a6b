"""Mirroring from the hub, with the network's part replaced by folders on this disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from model_code.hub_mirror import main
from model_code.sentiment.data import read_layout
from model_code.sources import HubSource, SourceError, parse_hub

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (f"hf://a/b@{REVISION}", HubSource(name="a/b", revision=REVISION)),
        ("hf://a-1/b.c_d/sentiment@v1.0", HubSource(name="a-1/b.c_d", config="sentiment", revision="v1.0")),
    ],
)
def test_sources_name_repository_subset_and_revision(text: str, source: HubSource) -> None:
    assert parse_hub(text) == source


@pytest.mark.parametrize(
    "text",
    ["a/b@x", "hf://a/b", "hf://b@x", "hf://a/b@main", "hf://a/b@HEAD", "hf://a/b/c/d@x", "hf://a/b@x y"],
)
def test_sources_that_pin_nothing_are_refused(text: str) -> None:
    with pytest.raises(SourceError):
        parse_hub(text)


@pytest.fixture
def snapshot(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The network's part: a cache folder of links, as snapshot_download leaves it."""
    folder = tmp_path / "cache" / "snapshots" / REVISION
    folder.mkdir(parents=True)
    for file in base.iterdir():
        (folder / file.name).symlink_to(file)

    def download(name: str, *, revision: str, allow_patterns: list[str]) -> str:
        assert (name, revision) == ("maker/model", REVISION)
        assert "*.safetensors" in allow_patterns and "*.h5" not in allow_patterns
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return folder


def test_the_model_becomes_a_plain_folder(snapshot: Path, base: Path, tmp_path: Path) -> None:
    (snapshot / "pytorch_model.bin").write_bytes(b"a pickled copy of the same weights")
    assert main(["--base-model", f"hf://maker/model@{REVISION}", "--output", str(tmp_path / "out")]) == 0
    mirrored = {path.name: path for path in (tmp_path / "out" / "base_model").iterdir()}
    assert set(mirrored) == {path.name for path in base.iterdir()}
    assert not any(path.is_symlink() for path in mirrored.values())
    assert mirrored["model.safetensors"].read_bytes() == (base / "model.safetensors").read_bytes()


def test_pickled_weights_come_along_where_there_are_no_others(snapshot: Path, tmp_path: Path) -> None:
    (snapshot / "model.safetensors").rename(snapshot / "pytorch_model.bin")
    assert main(["--base-model", f"hf://maker/model@{REVISION}", "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "base_model" / "pytorch_model.bin").is_file()


def test_a_repository_without_weights_is_refused(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (snapshot / "model.safetensors").unlink()
    assert main(["--base-model", f"hf://maker/model@{REVISION}", "--output", str(tmp_path / "out")]) == 2
    assert "has no config.json with PyTorch weights beside it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RevisionNotFoundError, f"the model maker/model has no revision {REVISION}"),
        (RepositoryNotFoundError, "there is no model maker/model on the hub, or it is not public"),
        (OSError, "the model maker/model cannot be fetched: no route"),
    ],
)
def test_what_the_hub_refuses_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[Exception],
    message: str,
) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise error.__new__(error) if error is not OSError else OSError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert main(["--base-model", f"hf://maker/model@{REVISION}", "--output", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().err
    assert printed == f"hub_mirror: {message}\n"


def test_the_data_set_becomes_the_text_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`datasets` itself reads a data set of files; only where it lies is turned from the hub to this disk."""
    for split, rows in {
        "train": "good day,1\nbad day,0\n",
        "validation": "fine,1\n",
        "test": "poor,0\n",
    }.items():
        (tmp_path / f"{split}.csv").write_text(f"text,label\n{rows}")
    kept = datasets.load_dataset

    def load(name: str, config: str | None, *, revision: str) -> Any:
        assert (name, config, revision) == ("maker/data", "sentiment", REVISION)
        files = {split: str(tmp_path / f"{split}.csv") for split in ("train", "validation", "test")}
        loaded = kept("csv", data_files=files, cache_dir=str(tmp_path / "cache"))
        return loaded.cast_column("label", datasets.ClassLabel(names=["negative", "positive"]))

    monkeypatch.setattr(datasets, "load_dataset", load)
    out = tmp_path / "out"
    assert main(["--data", f"hf://maker/data/sentiment@{REVISION}", "--output", str(out)]) == 0
    data = read_layout(out / "data")
    assert data.labels == ["negative", "positive"]
    assert data.splits["train"].texts == ["good day", "bad day"]
    assert data.splits["test"].labels == [0]
    assert "train 2, val 1, test 1" in capsys.readouterr().out


def test_a_data_set_that_cannot_be_loaded_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: Any, **__: Any) -> Any:
        raise datasets.exceptions.DatasetNotFoundError("Dataset 'maker/data' doesn't exist")

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert main(["--data", f"hf://maker/data@{REVISION}", "--output", str(tmp_path)]) == 2
    assert "the data set maker/data cannot be loaded: Dataset 'maker/data'" in capsys.readouterr().err


def test_something_must_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--output", str(tmp_path)])
    assert "give --base-model, --data or both" in capsys.readouterr().err
    assert main(["--base-model", "hf://a/b@main", "--output", str(tmp_path)]) == 2
    assert "'main' moves; give a commit id or a tag" in capsys.readouterr().err
