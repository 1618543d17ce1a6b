"""Our client against the real server: it reads what the server answers and says what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_code.question_answering.client import AskError, ask
from tests.serving.question_answering.qa_server import Server, serve

CONTEXT = "The bridge was built in 1843 by the town. Ünder it runs a river."


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_the_answer_is_a_span_with_its_model_and_core(server: Server) -> None:
    found = ask(f"http://127.0.0.1:{server.port}", "When was it built?", CONTEXT, model="model_1")
    assert found.text == CONTEXT[found.start : found.end] and found.has_answer
    assert (found.model, found.core) == ("model_1", 11) and 0 <= found.score <= 1 and found.milliseconds > 0


def test_refusals_are_the_servers_own_sentences(server: Server) -> None:
    with pytest.raises(AskError, match=r"There is no model 'model_9' here; there are: model_0, model_1\.") as caught:
        ask(f"http://127.0.0.1:{server.port}", "When?", CONTEXT, model="model_9")
    assert caught.value.status == 404
    with pytest.raises(AskError, match="question: ") as caught:
        ask(f"http://127.0.0.1:{server.port}", "", CONTEXT)
    assert caught.value.status == 422


def test_a_token_is_brought(folders: list[Path]) -> None:
    with serve(MODEL_SOURCE=str(folders[0]), TOKEN="s3cret") as running:
        address = f"http://127.0.0.1:{running.port}/"
        assert ask(address, "When?", CONTEXT, token="s3cret").model == "model_0"
        for token in (None, "other"):
            with pytest.raises(AskError) as caught:
                ask(address, "When?", CONTEXT, token=token)
            assert caught.value.status == 401
