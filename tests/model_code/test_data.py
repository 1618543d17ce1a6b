"""The text layout and data sets of the hub: what is read, and what is refused, with file and line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from model_code.sentiment.data import DataError, from_hub_splits, load, read_layout, write_layout

Edit = Callable[[Path], object]


def write(folder: Path) -> None:
    folder.mkdir()
    (folder / "mapping.txt").write_text("0\tno\n1\tyes\n")
    for split in ("train", "val"):
        (folder / f"{split}_text.txt").write_text("one\ntwo\nthree\n")
        (folder / f"{split}_labels.txt").write_text("0\n1\n0\n")


def test_a_good_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / "d")
    data = load(str(tmp_path / "d"))
    assert data.labels == ["no", "yes"]
    assert data.splits["train"].texts == ["one", "two", "three"]
    assert data.splits["val"].labels == [0, 1, 0]
    assert data.held_out == "val"


def test_the_test_split_is_the_held_out_one_where_there_is_one(tmp_path: Path) -> None:
    write(tmp_path / "d")
    (tmp_path / "d" / "test_text.txt").write_text("four\n")
    (tmp_path / "d" / "test_labels.txt").write_text("1\n")
    assert read_layout(tmp_path / "d").held_out == "test"


def test_only_line_feeds_end_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "d")
    odd = "a\u2028b\nc\x85d\ne\x0cf"  # breaks for str.splitlines(), and no line feed at the end
    (tmp_path / "d" / "train_text.txt").write_bytes(odd.encode())
    (tmp_path / "d" / "val_text.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    data = read_layout(tmp_path / "d")
    assert data.splits["train"].texts == odd.split("\n")
    assert data.splits["val"].texts == ["one", "two", "three"]


def text(name: str, content: str | bytes) -> Edit:
    """Put `content` into the file `name` of the data folder."""
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(raw)


def gone(name: str) -> Edit:
    return lambda folder: (folder / name).unlink()


def folder_instead(folder: Path) -> None:
    (folder / "val_text.txt").unlink()
    (folder / "val_text.txt").mkdir()


def empty_val(folder: Path) -> None:
    (folder / "val_text.txt").write_text("")
    (folder / "val_labels.txt").write_text("")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (text("train_labels.txt", "0\nx\n0\n"), "train_labels.txt:2: expected a label id, found 'x'"),
        (text("train_labels.txt", "0\n1.0\n0\n"), "train_labels.txt:2: expected a label id"),
        (text("train_labels.txt", "0\n-1\n0\n"), "train_labels.txt:2: expected a label id"),
        (text("train_labels.txt", "0\n\u0661\n0\n"), "train_labels.txt:2: expected a label id"),
        (text("train_labels.txt", "0\n1\n2\n"), "train_labels.txt:3: label 2 is not in the mapping"),
        (text("val_labels.txt", "0\n1\n"), "val_labels.txt:3: the file ends here, but val_text.txt has 3"),
        (text("val_text.txt", "one\n"), "val_text.txt:2: the file ends here"),
        (text("train_text.txt", "one\n \nthree\n"), "train_text.txt:2: the sentence is empty"),
        (text("train_text.txt", b"one\ntwo\ncaf\xe9\n"), "train_text.txt:3: not UTF-8 (byte 0xe9)"),
        (text("train_labels.txt", f"0\n{'1' * 5000}\n0\n"), "train_labels.txt:2: expected a label id"),
        (text("mapping.txt", "0\tno\nyes\n"), "mapping.txt:2: expected"),
        (text("mapping.txt", f"0\tno\n{'1' * 5000}\tyes\n"), "mapping.txt:2: expected"),
        (text("mapping.txt", ""), "mapping.txt: needs at least two labels, has 0"),
        (folder_instead, "val_text.txt: cannot be read (Is a directory)"),
        (text("test_text.txt", "one\n"), "test_labels.txt: no such file"),
        (gone("mapping.txt"), "mapping.txt: no such file"),
        (gone("val_text.txt"), "val_text.txt: no such file"),
        (empty_val, "val_text.txt:1: the split val is empty"),
    ],
)
def test_bad_data_is_refused_with_file_and_line(tmp_path: Path, edit: Edit, message: str) -> None:
    write(tmp_path / "d")
    edit(tmp_path / "d")
    with pytest.raises(DataError, match=re.escape(message)):
        read_layout(tmp_path / "d")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder"):
        load(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("source", ["hf://tweet_eval", "hf://a/b@main", "hf://a/b/c/d@v1", "hf://a/b@"])
def test_hub_sources_that_are_not_pinned_are_refused(source: str) -> None:
    with pytest.raises(DataError, match=r"expected hf://|moves"):
        load(source)


def dataset(**splits: tuple[list[str], list[int]]) -> datasets.DatasetDict:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "maybe", "yes"])}
    )
    return datasets.DatasetDict(
        {
            name: datasets.Dataset.from_dict({"text": texts, "label": labels}, features=features)
            for name, (texts, labels) in splits.items()
        }
    )


def test_a_hub_data_set_becomes_our_layout_and_reads_back(tmp_path: Path) -> None:
    rows = (["first\nline", "two  spaces", "third"], [0, 2, 1])
    data = from_hub_splits(dataset(train=rows, validation=rows, test=rows), name="a/b")
    write_layout(data, tmp_path / "d")
    again = read_layout(tmp_path / "d")
    assert again == data
    assert again.labels == ["no", "maybe", "yes"]
    assert again.splits["train"].texts == ["first line", "two spaces", "third"]
    assert again.sha256() == data.sha256()


def test_a_hub_data_set_of_another_kind_is_refused() -> None:
    rows = (["one"], [0])
    with pytest.raises(DataError, match="a/b: no split validation; it has test, train"):
        from_hub_splits(dataset(train=rows, test=rows), name="a/b")
    with pytest.raises(DataError, match="needs the columns 'text' and 'label'"):
        from_hub_splits(dataset(train=rows, validation=rows).remove_columns("text"), name="a/b")


def test_an_unlabelled_hub_row_is_refused_with_its_number() -> None:
    with pytest.raises(DataError, match="a/b split train row 2: expected a label id, found '-1'"):
        from_hub_splits(dataset(train=(["one", "two"], [0, -1]), validation=(["x"], [0])), name="a/b")


def test_the_fingerprint_sees_every_change(tmp_path: Path) -> None:
    write(tmp_path / "d")
    before = read_layout(tmp_path / "d").sha256()
    (tmp_path / "d" / "train_labels.txt").write_text("0\n0\n0\n")
    assert read_layout(tmp_path / "d").sha256() != before
