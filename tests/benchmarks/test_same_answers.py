"""The held-out sentences of the demo's data: our answers are those of transformers' own pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.same_answers import by_pipeline, by_us, difference
from model_code.sentiment.data import read_layout
from model_code.sentiment.models import load_base
from model_code.sentiment.probe import TOLERANCE
from stand_in.demo.data import prepare

NODE_MODULES = Path(__file__).parents[2] / "node_modules"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's data, and its base model with a head of random weights, wide enough for clear answers."""
    folder = tmp_path_factory.mktemp("demo")
    prepare(folder, NODE_MODULES)
    torch.manual_seed(1)
    model, tokenizer = load_base(str(folder / "base-model"), ["negative", "positive"])
    with torch.no_grad():
        model.classifier.weight.normal_(std=0.5)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    # About as many of one label as of the other.
    rows = torch.tensor(by_us(folder / "model", read_layout(folder / "data").splits["val"].texts, bf16=False))
    with torch.no_grad():
        model.classifier.bias[0] -= (rows[:, 0] / rows[:, 1]).log().median()
    model.save_pretrained(folder / "model")
    return folder


def test_labels_are_the_pipelines_in_float32_and_in_bfloat16(demo: Path) -> None:
    splits = read_layout(demo / "data").splits
    texts = splits["test"].texts
    theirs = by_pipeline(demo / "model", texts)
    assert 0.1 < sum(row[0] > row[1] for row in theirs) / len(theirs) < 0.9, "one label for all would prove nothing"
    exact = difference(by_us(demo / "model", texts, bf16=False), theirs)
    assert (exact.texts, exact.equal) == (300, 300) and exact.score < 1e-4
    rounded = difference(by_us(demo / "model", texts, bf16=True), theirs)
    assert 1e-4 < rounded.score < TOLERANCE and rounded.margin < TOLERANCE and rounded.equal > 270


def test_a_difference_is_seen() -> None:
    found = difference([[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.7, 0.3]])
    assert (found.texts, found.equal) == (2, 1)
    assert found.score == pytest.approx(0.3)
    assert found.margin == pytest.approx(0.4)
