"""Requests that came in together, and the toolkit's seam: each gets its own answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from model_code.sentiment import toolkit
from model_code.sentiment.answering import Answer, Incoming, answer
from model_code.sentiment.protocol import JSON, JSON_LINES

LABELS = ["no", "yes"]


def incoming(text: str, *, kind: str = JSON, **headers: str) -> Incoming:
    return Incoming(json.dumps({"inputs": text}), {"content-type": kind, **headers})


class Model:
    """Says yes to texts with "good" in them; fails for as long as a text with "bomb" is among them."""

    labels = LABELS

    def __init__(self) -> None:
        self.passes: list[list[str]] = []

    def scores(self, texts: Sequence[str]) -> list[list[float]]:
        self.passes.append(list(texts))
        if any("bomb" in text for text in texts):
            raise RuntimeError("secret path /opt")
        return [[0.1, 0.9] if "good" in text else [0.8, 0.2] for text in texts]


def said(found: Answer) -> str:
    """The best label of the only text, or the error."""
    document = json.loads(found.body)
    return str(document["error"] if isinstance(document, dict) else document[0][0]["label"])


def test_each_request_has_its_own_headers_and_status() -> None:
    model = Model()
    lines = Incoming('"good"\n"bad"', {"content-type": JSON_LINES})
    batch = [
        incoming("good"),
        incoming("x", kind="text/csv"),
        lines,
        incoming("bad", accept="text/csv"),
        incoming("bad"),
    ]
    found = answer(batch, labels=LABELS, score=model.scores, max_texts=2)
    assert [one.status for one in found] == [200, 415, 200, 406, 200]
    assert [one.kind for one in found] == [JSON, JSON, JSON_LINES, JSON, JSON]
    assert [json.loads(line)[0]["label"] for line in found[2].body.split("\n")] == ["yes", "no"]
    assert (said(found[0]), said(found[4])) == ("yes", "no")
    assert model.passes == [["good", "good", "bad", "bad"]], "the good ones together, and nothing of the refused ones"


def test_a_failure_is_found_by_trying_alone_and_stays_alone(caplog: pytest.LogCaptureFixture) -> None:
    batch = [incoming("good"), incoming("bomb"), incoming("bad")]
    found = answer(batch, labels=LABELS, score=Model().scores, max_texts=1)
    assert [one.status for one in found] == [200, 500, 200]
    assert [said(found[0]), said(found[2])] == ["yes", "no"]
    assert said(found[1]) == "The model failed to answer; the reason is in the endpoint's log."
    assert "secret path /opt" in caplog.text and "secret" not in found[1].body


def test_nothing_good_asks_the_model_nothing() -> None:
    model = Model()
    assert [one.status for one in answer([incoming("")], labels=LABELS, score=model.scores, max_texts=1)] == [400]
    assert answer([], labels=LABELS, score=model.scores, max_texts=1) == [] == model.passes


class Context:
    """The toolkit's context: what it is asked for and what it is told."""

    def __init__(self, *headers: dict[str, Any]) -> None:
        self.system_properties = {"model_dir": "/model"}
        self.request_processor = [SimpleNamespace(get_request_properties=lambda own=own: own) for own in headers]
        self.told: dict[int, list[object]] = {index: [] for index in range(len(headers))}

    def set_response_status(self, *, code: int, phrase: str, idx: int) -> None:
        self.told[idx] += [code, phrase]

    def set_response_content_type(self, index: int, value: str) -> None:
        self.told[index].append(value)


def test_the_toolkit_gets_bodies_and_its_context_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in any case; a header that only begins like another, and a part's description, are none."""
    monkeypatch.setenv("TORCHLIFT_MAX_TEXTS", "2")
    loaded: list[dict[str, object]] = []
    transformer = SimpleNamespace(validate_and_initialize=lambda **given: loaded.append(given), _model=Model())
    context = Context(
        {"Content-Type-Options": "nosniff", "body": {"content-type": "x"}, "CONTENT-TYPE": JSON},
        {"content-type": JSON, "Content-Type": {"content-type": "text/csv"}},
        {},
    )
    data = [{"body": b'{"inputs": "good"}'}, {"body": b'{"inputs": ["a", "b", "c"]}'}, {}]
    bodies = toolkit.transform(transformer, data, context)
    assert [told[0] for told in context.told.values()] == [200, 413, 415]
    assert context.told[2] == [415, "Unsupported Media Type", JSON]
    assert {told[2] for told in context.told.values()} == {JSON}
    assert json.loads(bodies[0])[0][0]["label"] == "yes"
    assert json.loads(bodies[1]) == {"error": "'inputs' has 3 texts; at most 2 are allowed."}
    assert loaded == [{"model_dir": "/model", "context": context}]


def test_a_toolkit_without_the_seam_loads_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sagemaker_inference.transformer")
    module.Transformer = type("Transformer", (), {"transform": lambda: None})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sagemaker_inference", ModuleType("sagemaker_inference"))
    monkeypatch.setitem(sys.modules, "sagemaker_inference.transformer", module)
    with pytest.raises(RuntimeError, match=r"no Transformer\.validate_and_initialize"):
        toolkit.install()
