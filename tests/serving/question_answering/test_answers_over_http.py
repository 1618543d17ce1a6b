"""What the server answers, over HTTP."""

from __future__ import annotations

import json
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from model_code.question_answering.compiled import CompiledModel
from tests.model_code.question_answering.tiny_qa import questions
from tests.serving.question_answering.qa_server import Answer, Server, alone, serve
from tests.support.waiting import eventually


def same(answer: dict[str, Any], model: CompiledModel, question: str, context: str) -> None:
    wanted = alone(model, question, context)
    assert (answer["start"], answer["end"], answer["has_answer"]) == (wanted.start, wanted.end, wanted.has_answer)
    assert answer["score"] == pytest.approx(wanted.score, abs=1e-4)
    assert answer["text"] == context[answer["start"] : answer["end"]]


def test_mixed_lengths_at_once_answer_as_they_do_alone(server: Server, models: list[CompiledModel]) -> None:
    """Short ones, long ones and some of several windows share batches."""
    pairs = [*questions(60, longest=90, seed=1), *questions(12, longest=1500, seed=2)]
    with ThreadPoolExecutor(16) as pool:
        answers: list[Answer] = list(pool.map(lambda pair: server.predict(*pair), pairs))
    assert server.metric("torchlift_batch_rows_count") < server.metric("torchlift_batch_rows_sum")
    for answer, (question, context) in zip(answers, pairs, strict=True):
        assert answer.status == 200, answer.body
        same(answer.json, models[0], question, context)
        assert answer.json["core"] == 11
        assert set(answer.json["timings"]) == {"prepare", "queue", "inference", "total"}


def test_many_inputs_in_one_request(server: Server, models: list[CompiledModel]) -> None:
    pairs = questions(20, longest=60, seed=3)
    inputs = [{"question": question, "context": context, "model": "model_1"} for question, context in pairs]
    answer = server.ask("POST", "/predict", {"inputs": inputs})
    assert answer.status == 200
    for found, pair in zip(answer.json["answers"], pairs, strict=True):
        assert found["model"] == "model_1"
        same(found, models[0], *pair)


def test_characters_not_bytes(server: Server) -> None:
    context = "😀 Café 中文 stone"
    found = server.predict("where?", context).json
    assert context[found["start"] : found["end"]] == found["text"] != ""


def test_sagemaker_paths(server: Server) -> None:
    assert server.ask("GET", "/ping").status == 200
    body = {"question": "where?", "context": "the old bridge"}
    ours, theirs = (server.ask("POST", path, body).json for path in ("/predict", "/invocations"))
    assert {**ours, "timings": 0, "model": 0} == {**theirs, "timings": 0, "model": 0}


def test_the_path_of_the_original(server: Server, models: list[CompiledModel]) -> None:
    """What a client of the FastAPI-on-Inferentia sample sends: GET, both texts in the query, or neither."""
    question, context = "where is the river?", "the river was in the old city & garden"
    query = urllib.parse.urlencode({"seq_0": question, "seq_1": context})
    answer = server.ask("GET", f"/predictions_neuron_core_11/model_1?{query}")
    wanted = alone(models[0], question, context)
    assert (answer.status, answer.json) == (200, {"detail": context[wanted.start : wanted.end]})
    assert server.ask("GET", "/predictions_neuron_core_11/model_0").status == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/predictions_neuron_core_1/model_0", "This server has core 11, not '1'."),
        ("/predictions_neuron_core_x/model_0", "This server has core 11, not 'x'."),
        ("/predictions_neuron_core_11/model_2", "There is no model 'model_2' here; there are: model_0, model_1."),
        ("/nowhere", "There is no such path; /docs lists them."),
    ],
)
def test_what_does_not_exist(server: Server, path: str, said: str) -> None:
    answer = server.ask("GET", path)
    assert (answer.status, answer.json["error"]) == (404, said)


GOOD = {"question": "where?", "context": "the old bridge"}
REFUSED: dict[str, tuple[Any, int, str]] = {
    "no JSON": (b'{"question"', 400, "The body is not valid JSON."),
    "not UTF-8": (b'{"question": "\xff"}', 400, "The body is not valid JSON."),
    "nested": (b"[" * 100_000, 400, "The body is not valid JSON."),
    "no body": (b"", 422, "body: "),
    "a list": ([GOOD], 422, "body: "),
    "no context": ({"question": "x"}, 422, "body.context: Field required"),
    "unknown field": ({**GOOD, "extra": 1}, 422, "body.extra: Extra inputs are not permitted"),
    "a number": ({**GOOD, "question": 1}, 422, "body.question: Input should be a valid string"),
    "empty": ({**GOOD, "question": ""}, 422, "body.question: String should have at least 1 character"),
    "surrogate": (b'{"question": "\\ud800", "context": "x"}', 400, "The body is not valid JSON."),
    "no inputs": ({"inputs": []}, 422, "body.inputs: List should have at least 1 item"),
    "wrong input": ({"inputs": [GOOD, {}]}, 422, "body.inputs.1.question: Field required"),
    "unknown model": ({**GOOD, "model": "none"}, 404, "There is no model 'none' here"),
    "too much context": (
        {"question": "x", "context": "a b " * 24_000}, 422, "The context has 48000 tokens; beside this question at most"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_requests(server: Server, case: str) -> None:
    body, status, said = REFUSED[case]
    answer = server.ask("POST", "/predict", body)
    assert (answer.status, set(answer.json)) == (status, {"error", "request_id"}), answer.body
    assert said in answer.json["error"]
    assert answer.headers["x-request-id"] == answer.json["request_id"]


def test_methods_and_media_types(server: Server) -> None:
    answer = server.ask("PUT", "/predict", GOOD)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert server.ask("POST", "/predict", b"x", Content_Type="text/plain").status == 422


def test_a_large_body_is_refused_announced_or_not(server: Server) -> None:
    answer = server.ask("POST", "/predict", b" " * 1_000_001)
    assert (answer.status, "at most 1000000 are allowed" in answer.json["error"]) == (413, True)
    connection = server.connect()
    connection.request("POST", "/predict", (b" " * 100_000 for _ in range(11)), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert (response.status, set(json.loads(response.read()))) == (413, {"error", "request_id"})


def test_request_ids(server: Server) -> None:
    assert server.ask("GET", "/models", X_Request_Id="abc-1").headers["x-request-id"] == "abc-1"
    made = server.ask("GET", "/models", X_Request_Id='a"b c').headers["x-request-id"]
    assert len(made) == 32
    eventually(lambda: {"abc-1", made} <= {line.get("request_id") for line in server.log()})  # written a moment later


def test_models_say_what_they_are(server: Server, folders: list[Path]) -> None:
    found = server.ask("GET", "/models").json
    assert (found["core"], found["problem"]) == (11, None)
    first, second = found["models"]
    assert (first["name"], second["name"], first["source"]) == ("model_0", "model_1", str(folders[0]))
    assert (first["batch_sizes"], first["lengths"]) == ([1, 4, 8], [32, 128, 640])
    assert first["file_bytes"] > 0 and first["max_abs_difference"] < 1e-4 and found["process_bytes"] > 1e7


def test_a_late_request_is_not_run(server: Server) -> None:
    """Its time is over once it is prepared: 504, and no row of it reaches the model."""
    before = server.metric("torchlift_batch_rows_sum")
    answer = server.predict("where?", "the old bridge " * 1500, X_Timeout_Ms="1")
    assert answer.status == 504
    assert server.predict("where?", "the old bridge").status == 200
    assert server.metric("torchlift_batch_rows_sum") == before + 1
    for wrong in ("0", "-1", "x", "60001"):
        assert server.predict("where?", "the old bridge", X_Timeout_Ms=wrong).status == 422


def test_a_token(folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with serve(MODEL_SOURCE=str(folders[0]), TOKEN_FILE=str(tmp_path / "token")) as guarded:
        assert guarded.ask("GET", "/healthz").status == guarded.ask("GET", "/readyz").status == 200
        for sent in ("", "Bearer wrong", "s3cret", "Bearer "):
            answer = guarded.ask("GET", "/models", Authorization=sent)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "request_id" in answer.json
        assert guarded.ask("GET", "/models", Authorization="Bearer s3cret").status == 200
        assert "s3cret" not in (guarded.scratch / "log").read_text()
