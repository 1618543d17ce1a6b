"""The demo's data, base model and review sentences."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from model_code.sentiment.data import Data, read_layout
from model_code.sentiment.models import load_base
from stand_in.demo.data import prepare

REPOSITORY = Path(__file__).parents[2]
NODE_MODULES = REPOSITORY / "node_modules"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("demo")
    prepare(target, NODE_MODULES)
    return target


@pytest.fixture(scope="module")
def sentences(demo: Path) -> Data:
    return read_layout(demo / "data")


def reviews() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(
        (REPOSITORY / "stand_in" / "demo" / "review_sentences.json").read_text(encoding="utf-8")
    )
    return found


def test_the_splits_are_fixed_disjoint_and_balanced(sentences: Data) -> None:
    sizes = {name: len(split) for name, split in sentences.splits.items()}
    assert sizes == {"train": 2382, "val": 300, "test": 300}
    assert sentences.labels == ["negative", "positive"]
    texts = [text for split in sentences.splits.values() for text in split.texts]
    assert len(texts) == len(set(texts))
    for split in sentences.splits.values():
        assert 0.4 < sum(split.labels) / len(split) < 0.6
    # The very same rows on every machine and Python version:
    assert sentences.sha256()[:16] == "97222b903cac4cb4"


def test_the_base_model_loads_offline_with_pretrained_weights(demo: Path) -> None:
    model, tokenizer = load_base(str(demo / "base-model"), ["negative", "positive"])
    assert model.config.num_hidden_layers == 6
    assert tokenizer("good day")["input_ids"] == [101, 2204, 2154, 102]


def test_preparing_again_changes_nothing_and_mends_what_is_gone(demo: Path) -> None:
    before = (demo / "base-model" / "model.safetensors").stat()
    (demo / "data" / "mapping.txt").rename(demo / "mapping.txt")
    for file in (demo / "data").iterdir():
        file.unlink()
    (demo / "data").rmdir()
    prepare(demo, NODE_MODULES)
    assert (demo / "data" / "mapping.txt").read_text() == (demo / "mapping.txt").read_text()
    assert (demo / "base-model" / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns
    assert not [path for path in demo.iterdir() if path.name.startswith(".")]


def test_a_missing_package_is_named_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="npm package 'sentiment' is not installed"):
        prepare(tmp_path / "demo", tmp_path / "node_modules")
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["base-model"]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def runs(text: str, length: int) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[at : at + length]) for at in range(len(found) - length + 1)}


def test_there_are_twelve_reviews_of_each_kind() -> None:
    labels = [review["label"] for review in reviews()]
    assert sorted(labels) == ["negative"] * 12 + ["positive"] * 12
    assert len({review["text"] for review in reviews()}) == 24


def test_the_reviews_share_no_run_of_eight_words_with_the_data(sentences: Data) -> None:
    known = {run for split in sentences.splits.values() for text in split.texts for run in runs(text, 8)}
    assert len(known) > 10_000
    for review in reviews():
        assert len(words(review["text"])) >= 7, "too short to tell"
        assert not runs(review["text"], 8) & known


def test_no_review_is_a_sentence_of_the_data(sentences: Data) -> None:
    known = {tuple(words(text)) for split in sentences.splits.values() for text in split.texts}
    assert not known & {tuple(words(review["text"])) for review in reviews()}
