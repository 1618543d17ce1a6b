"""Labelled sentences: read and check the text layout, or load a data set from the hub.

Text layout, one folder: `{train,val,test}_text.txt` (one sentence a line), `{train,val,test}_labels.txt`
(one label id a line), `mapping.txt` (`<id><tab><label>` a line). The test split is optional.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_code.sentiment.labels import LabelError, format_mapping, parse_mapping
from model_code.sources import HubSource, SourceError, parse_hub

SPLITS = ("train", "val", "test")
REQUIRED = ("train", "val")
LABEL_ID = re.compile("[0-9]{1,9}")
# The hub's names for our splits.
HUB_SPLITS = {"train": "train", "validation": "val", "test": "test"}


class DataError(ValueError):
    """Data that cannot be trained on; the message names the file and the line."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Sentences and their label ids, in step."""

    texts: list[str]
    labels: list[int]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Label names in id order, and the splits by name: `train` and `val` always, `test` when there is one."""

    labels: list[str]
    splits: Mapping[str, Split]

    @property
    def held_out(self) -> str:
        """The split for the final score: the test split where there is one."""
        return "test" if "test" in self.splits else "val"

    def sha256(self, split: str | None = None) -> str:
        """Fingerprint of labels, sentences and their order: of everything, or of one split."""
        digest = hashlib.sha256(format_mapping(self.labels).encode())
        for name in sorted(self.splits) if split is None else (split,):
            rows = self.splits[name]
            for text, label in zip(rows.texts, rows.labels, strict=True):
                digest.update(f"{name}\0{label}\0{text}\n".encode())
        return digest.hexdigest()


def load(source: str) -> Data:
    """Data from a folder in the text layout or from `hf://owner/name[/config]@revision`. Raises DataError."""
    if source.startswith("hf://"):
        try:
            return read_hub(parse_hub(source))
        except SourceError as error:
            raise DataError(str(error)) from error
    return read_layout(Path(source))


def read_layout(folder: Path) -> Data:
    """Data from a folder in the text layout. Raises DataError with file and line."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    mapping = folder / "mapping.txt"
    try:
        labels = parse_mapping("\n".join(_lines(mapping)), name=str(mapping))
    except LabelError as error:
        raise DataError(str(error)) from error
    splits = {
        name: _read_split(folder, name, labels)
        for name in SPLITS
        if name in REQUIRED or (folder / f"{name}_text.txt").exists() or (folder / f"{name}_labels.txt").exists()
    }
    return Data(labels=labels, splits=splits)


def write_layout(data: Data, folder: Path) -> None:
    """Write `data` in the text layout. Line breaks inside a sentence become spaces."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "mapping.txt", [f"{index}\t{label}" for index, label in enumerate(data.labels)])
    for name, split in data.splits.items():
        _write(folder / f"{name}_text.txt", (" ".join(text.split()) for text in split.texts))
        _write(folder / f"{name}_labels.txt", map(str, split.labels))


def read_hub(source: HubSource) -> Data:
    """A classification data set from the hub: columns `text` and `label`, label names from its features."""
    import datasets

    try:
        loaded = datasets.load_dataset(source.name, source.config, revision=source.revision)
    except Exception as error:  # `datasets` raises many kinds, some its own, some of the file system's
        raise DataError(f"the data set {source.name} cannot be loaded: {' '.join(str(error).split())}") from error
    return from_hub_splits(loaded, name=source.name)


def from_hub_splits(loaded: Mapping[str, Any], *, name: str) -> Data:
    """Our form of a `datasets.DatasetDict`. Raises DataError when a split or column is missing."""
    missing = [split for split, ours in HUB_SPLITS.items() if ours in REQUIRED and split not in loaded]
    if missing:
        raise DataError(f"{name}: no split {' or '.join(missing)}; it has {', '.join(sorted(loaded))}")
    features = loaded["train"].features
    if "text" not in features or not getattr(features.get("label"), "names", None):
        raise DataError(f"{name}: needs the columns 'text' and 'label' (a class label); it has {', '.join(features)}")
    labels = list(features["label"].names)
    splits = {}
    for split, ours in HUB_SPLITS.items():
        if split in loaded:
            texts = [" ".join(str(text).split()) for text in loaded[split]["text"]]
            where = f"{name} split {split} row "
            splits[ours] = _check(texts, [str(label) for label in loaded[split]["label"]], labels, where, where)
    return Data(labels=labels, splits=splits)


def _read_split(folder: Path, name: str, labels: list[str]) -> Split:
    texts_file, labels_file = folder / f"{name}_text.txt", folder / f"{name}_labels.txt"
    texts, ids = _lines(texts_file), _lines(labels_file)
    if len(texts) != len(ids):
        short, line = (texts_file, len(texts)) if len(texts) < len(ids) else (labels_file, len(ids))
        raise DataError(
            f"{short}:{line + 1}: the file ends here, but {texts_file.name} has {len(texts)} lines and "
            f"{labels_file.name} has {len(ids)}"
        )
    if not texts:
        raise DataError(f"{texts_file}:1: the split {name} is empty")
    return _check(texts, ids, labels, f"{texts_file}:", f"{labels_file}:")


def _check(texts: list[str], ids: list[str], labels: list[str], text_at: str, label_at: str) -> Split:
    checked = []
    for number, (text, raw) in enumerate(zip(texts, ids, strict=True), start=1):
        if not text.strip():
            raise DataError(f"{text_at}{number}: the sentence is empty")
        value = raw.strip()
        if not LABEL_ID.fullmatch(value):
            raise DataError(f"{label_at}{number}: expected a label id, found {raw[:40]!r}")
        if int(value) >= len(labels):
            raise DataError(f"{label_at}{number}: label {int(value)} is not in the mapping (0 to {len(labels) - 1})")
        checked.append(int(value))
    return Split(texts=texts, labels=checked)


def _lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file, split at line feeds only: a tweet may hold other characters that break lines."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: not UTF-8 (byte {raw[error.start]:#04x})") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
