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

from model_code.sentiment import inference, toolkit
from model_code.sentiment.protocol import RequestError


def answer(model_dir: Path, texts: list[str]) -> list[list[dict[str, float | str]]]:
    model = inference.model_fn(str(model_dir))
    request = inference.input_fn(json.dumps({"inputs": texts}), "application/json")
    body, kind = inference.output_fn(inference.predict_fn(request, model), "application/json")
    assert kind == "application/json"
    found: list[list[dict[str, float | str]]] = json.loads(body)
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


def test_the_limit_on_texts_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"inputs": ["a"] * 3})
    monkeypatch.setenv("TORCHLIFT_MAX_TEXTS", "2")
    with pytest.raises(RequestError, match="3 texts; at most 2"):
        inference.input_fn(body, "application/json")
    monkeypatch.delenv("TORCHLIFT_MAX_TEXTS")
    assert len(inference.input_fn(body, "application/json").texts) == 3


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


class Context:
    """Records what the toolkit's context would be told."""

    status: tuple[int, str]
    kind: str

    def set_response_status(self, *, code: int, phrase: str) -> None:
        self.status = code, phrase

    def set_response_content_type(self, index: int, value: str) -> None:
        assert index == 0
        self.kind = value


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (RequestError(413, "Too long."), (413, "Request Entity Too Large"), "Too long."),
        (
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
            (400, "Bad Request"),
            "The body is not valid UTF-8.",
        ),
        (
            ZeroDivisionError("secret path /opt"),
            (500, "Internal Server Error"),
            "The model failed to answer; the reason is in the endpoint's log.",
        ),
    ],
)
def test_errors_become_a_status_and_a_sentence_without_traceback(
    error: Exception, status: tuple[int, str], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = Context()
    try:
        raise error
    except Exception as caught:
        body = toolkit.answer_error(context, caught, "Traceback ...")
    assert context.status[0] == status[0]
    assert context.kind == "application/json"
    assert [json.loads(one) for one in body] == [{"error": sentence}]
    assert ("Traceback" in caplog.text) == (status[0] == 500), "the log has it, and only for our own failures"
