"""The handler's functions in this process; tests/serving has them behind the real server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from model_code.sentiment import answering, inference


def answer(model_dir: Path, texts: list[str]) -> list[list[dict[str, float | str]]]:
    model = inference.model_fn(str(model_dir))
    incoming = answering.Incoming(json.dumps({"inputs": texts}), {"content-type": "application/json"})
    [answer] = answering.answer([incoming], labels=model.labels, score=model.scores, max_texts=len(texts))
    assert (answer.status, answer.kind) == (200, "application/json")
    found: list[list[dict[str, float | str]]] = json.loads(answer.body)
    return found


def texts(tiny: ModuleType) -> list[str]:
    made: list[str] = tiny.sentences(45, labels=2, seed=5)[0]
    return [*made, "good " * 300, "?", "never seen before"]  # too long, shortest, unknown words


def test_the_handler_says_what_the_plain_pipeline_says(trained: Path, tiny: ModuleType) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(trained)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    plain = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, truncation=True)
    for ours, theirs in zip(answer(trained, texts(tiny)), plain(texts(tiny)), strict=True):
        assert [one["label"] for one in ours] == [one["label"] for one in theirs]
        assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=1e-5)


def test_a_text_gets_the_same_answer_alone_and_among_others(trained: Path, tiny: ModuleType) -> None:
    model = inference.model_fn(str(trained))
    together = model.scores(texts(tiny))
    for text, row in zip(texts(tiny), together, strict=True):
        assert model.scores([text])[0] == pytest.approx(row, abs=1e-5)


def test_roberta_takes_texts_up_to_its_last_position(
    train: Callable[..., int], tiny: ModuleType, tmp_path: Path
) -> None:
    base = tiny.write_base(tmp_path / "base", family="roberta")
    data = tiny.write_data(tmp_path / "data", labels=3)
    assert train(tmp_path, "--epochs", "1", base_model=base, data_folder=data) == 0
    rows = answer(tmp_path / "output", ["good " * 500, "bad"])
    assert [len(row) for row in rows] == [3, 3]
    assert sum(float(one["score"]) for one in rows[0]) == pytest.approx(1, abs=1e-5)


def test_a_model_with_weights_missing_does_not_load(trained: Path, tmp_path: Path) -> None:
    """transformers would fill them with random numbers, and say so in the log only."""
    folder = Path(shutil.copytree(trained, tmp_path / "model"))
    tensors = load_file(folder / "model.safetensors")
    del tensors["classifier.bias"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"weights are missing: classifier\.bias"):
        inference.model_fn(str(folder))


def test_a_folder_without_a_model_does_not_load(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        inference.model_fn(str(tmp_path))
