"""The probe: which texts are asked, and that its answers are those of the serving code."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from model_code.sentiment import answering, inference, probe
from model_code.sentiment.classifier import Classifier
from model_code.sentiment.data import Split, load
from model_code.sentiment.probing import MAX_CHARACTERS, PROBE, choose_texts, write_probe


@pytest.fixture
def written(trained: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((trained / PROBE).read_text(encoding="utf-8"))
    return found


def test_what_the_probe_expects_is_what_the_serving_code_answers(trained: Path, written: dict[str, Any]) -> None:
    probe.check(written, ["negative", "positive"])
    assert written["tolerance"] == probe.TOLERANCE
    assert probe.of_weights(trained, ["negative", "positive"]) == (trained / PROBE).read_bytes()
    classifier = inference.model_fn(str(trained))
    for case in written["cases"]:
        incoming = answering.Incoming(json.dumps(case["request"]), {"content-type": written["content_type"]})
        [answer] = answering.answer([incoming], labels=classifier.labels, score=classifier.scores, max_texts=1)
        [got], [wanted] = json.loads(answer.body), case["answer"]
        assert [entry["label"] for entry in got] == [entry["label"] for entry in wanted]
        assert [entry["score"] for entry in got] == pytest.approx([entry["score"] for entry in wanted], abs=1e-5)
        assert sum(entry["score"] for entry in wanted) == pytest.approx(1, abs=1e-5)


def test_another_model_does_not_pass_for_this_one(
    train: Any, tiny: ModuleType, tmp_path: Path, written: dict[str, Any]
) -> None:
    """Labels the wrong way round: the same words, the opposite answers."""
    data = tiny.write_data(tmp_path / "data")
    (data / "mapping.txt").write_text("0\tpositive\n1\tnegative\n")
    assert train(tmp_path, data_folder=data) == 0
    other = json.loads((tmp_path / "output" / PROBE).read_text(encoding="utf-8"))
    apart = [
        abs(entry["score"] - {item["label"]: item["score"] for item in case["answer"][0]}[entry["label"]])
        for case, twin in zip(written["cases"], other["cases"], strict=True)
        for entry in twin["answer"][0]
    ]
    assert max(apart) > written["tolerance"]


def test_every_label_a_short_a_long_and_a_foreign_text_are_asked(
    trained: Path, data: Path, written: dict[str, Any]
) -> None:
    texts = [text for case in written["cases"] for text in case["request"]["inputs"]]
    assert 7 <= len(texts) <= 8
    split = load(str(data)).splits["test"]
    label_of = dict(zip(split.texts, split.labels, strict=True))
    assert {label_of[text] for text in texts if text in label_of} == {0, 1}
    assert min(split.texts, key=len) in texts
    assert any(not text.isascii() for text in texts)
    classifier = Classifier(trained)
    assert any(len(classifier.tokenizer(text)["input_ids"]) > classifier.max_length for text in texts)


def test_the_choice_takes_foreign_texts_of_the_data_and_leaves_out_huge_ones(trained: Path) -> None:
    held_out = Split(texts=["x " * MAX_CHARACTERS, "good film", "schön", "bad film"], labels=[0, 1, 1, 0])
    texts = choose_texts(held_out, Classifier(trained))
    assert texts[:4] == ["bad film", "good film", "schön", texts[3]]
    assert held_out.texts[0] not in texts


@pytest.mark.parametrize("text", ["good " * MAX_CHARACTERS, "good"])
def test_one_held_out_text_is_enough(trained: Path, tmp_path: Path, text: str) -> None:
    for file in trained.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    write_probe(tmp_path, Split(texts=[text.strip()], labels=[1]))
    assert len(json.loads((tmp_path / PROBE).read_text(encoding="utf-8"))["cases"]) >= 2
