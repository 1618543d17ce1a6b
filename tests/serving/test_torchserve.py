"""The archive behind the real server: what SageMaker's container runs, over HTTP on loopback."""

from __future__ import annotations

import ipaddress
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from model_code.sentiment.classifier import Classifier
from model_code.sentiment.client import build_request, parse_answer

JSON = "application/json"
KINDS = "application/json, application/jsonlines, text/plain"


def test_answers_are_those_of_the_model(server: Any, weights: Path, tiny: ModuleType) -> None:
    texts = tiny.sentences(32, labels=3, seed=77)[0]
    answer = server.invoke(build_request(texts), Content_Type=JSON, Accept=JSON)
    assert (answer.status, answer.headers["Content-Type"]) == (200, JSON)
    model = Classifier(weights)
    for found, wanted in zip(parse_answer(answer.body, texts=32), model.scores(texts), strict=True):
        best = model.labels[wanted.index(max(wanted))]
        assert found[0].label == best
        assert {one.label: one.score for one in found} == pytest.approx(
            dict(zip(model.labels, wanted, strict=True)), abs=1e-5
        )


def test_top_k_and_a_single_text(server: Any) -> None:
    answer = server.invoke(b'{"inputs": "good", "parameters": {"top_k": 1}}', Content_Type=JSON)
    (judgements,) = parse_answer(answer.body, texts=1)
    assert [one.label for one in judgements] == ["positive"]


@pytest.mark.parametrize("headers", [{}, {"Accept": "*/*"}, {"Accept": "application/*, text/html;q=0.5"}])
def test_accept_headers_that_allow_json(server: Any, headers: dict[str, str]) -> None:
    answer = server.invoke(b'{"inputs": "good"}', Content_Type=f"{JSON}; charset=utf-8", **headers)
    assert answer.status == 200


def test_the_log_says_how_the_weights_are_held(server: Any) -> None:
    assert "weights in float32 (TORCHLIFT_BF16 is not true), 1 threads" in server.log.read_text(errors="replace")


def test_ping_is_healthy(server: Any) -> None:
    import urllib.request

    with urllib.request.urlopen(f"{server.url}/ping", timeout=10) as response:
        assert response.status == 200


def test_json_lines_and_plain_text(server: Any) -> None:
    lines = server.invoke(
        b'"good"\n{"inputs": "bad"}', Content_Type="application/jsonlines", Accept="application/jsonlines"
    )
    assert (lines.status, lines.headers["Content-Type"]) == (200, "application/jsonlines")
    assert [json.loads(line)[0]["label"] for line in lines.body.splitlines()] == ["positive", "negative"]
    plain = server.invoke(b"good", Content_Type="text/plain")
    assert (plain.status, json.loads(plain.body)[0][0]["label"]) == (200, "positive")


REFUSED: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "no JSON": (b'{"inputs": "x"', {"Content_Type": JSON}, 400, "The body is not valid JSON (line 1, column 15)."),
    "no UTF-8": (b'{"inputs": "\xff"}', {"Content_Type": JSON}, 400, "The body is not valid UTF-8."),
    "empty": (b"", {"Content_Type": JSON}, 400, 'The body is empty; send {"inputs": "text"}.'),
    "nested": (b"[" * 100_000, {"Content_Type": JSON}, 400, "The body's JSON is nested too deeply."),
    "no inputs": (b"{}", {"Content_Type": JSON}, 400, "The field 'inputs' is missing."),
    "wrong type": (b'{"inputs": [1]}', {"Content_Type": JSON}, 400, "'inputs[0]' must be a text, not a number."),
    "empty text": (b'{"inputs": ""}', {"Content_Type": JSON}, 400, "'inputs' is empty."),
    "surrogate": (
        b'{"inputs": "\\ud800"}', {"Content_Type": JSON}, 400,
        "'inputs' holds half of a surrogate pair, which is not valid Unicode.",
    ),
    "top_k": (
        b'{"inputs": "x", "parameters": {"top_k": 0}}', {"Content_Type": JSON}, 400,
        "'top_k' must be a whole number of at least 1.",
    ),
    "csv": (b"x", {"Content_Type": "text/csv"}, 415, f"Send the content type {KINDS}, not 'text/csv'."),
    "numpy": (
        b"\x93NUMPY", {"Content_Type": "application/x-npy"}, 415,
        f"Send the content type {KINDS}, not 'application/x-npy'.",
    ),
    "form": (
        b"a=b", {"Content_Type": "application/x-www-form-urlencoded"}, 415,
        f"Send the content type {KINDS}, not 'application/x-www-form-urlencoded'.",
    ),
    "multipart": (
        b'--x\r\nContent-Disposition: form-data; name="inputs"\r\n\r\ngood\r\n--x--\r\n',
        {"Content_Type": "multipart/form-data; boundary=x"}, 415,
        f"Send the content type {KINDS}, not 'multipart/form-data'.",
    ),
    "accept": (
        b'{"inputs": "x"}', {"Content_Type": JSON, "Accept": "text/csv"}, 406,
        "The answer is application/json or application/jsonlines; the Accept header 'text/csv' rules both out.",
    ),
    "too many": (
        json.dumps({"inputs": ["x"] * 33}).encode(), {"Content_Type": JSON}, 413,
        "'inputs' has 33 texts; at most 32 are allowed.",
    ),
    "too long": (
        json.dumps({"inputs": "x" * 10_001}).encode(), {"Content_Type": JSON}, 413,
        "'inputs' has 10001 characters; at most 10000 are allowed.",
    ),
    "too big": (
        b"x" * 1_000_001, {"Content_Type": JSON}, 413,
        "The body has 1000001 bytes; at most 1000000 are allowed.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_requests_get_their_status_and_one_sentence(server: Any, name: str) -> None:
    body, headers, status, sentence = REFUSED[name]
    answer = server.invoke(body, **headers)
    assert answer.status == status
    assert answer.headers["Content-Type"] == JSON
    assert json.loads(answer.body) == {"error": sentence}


def test_a_refusal_leaves_the_server_well(server: Any) -> None:
    """Good and bad requests at the same time: each gets its own answer."""
    good, bad = b'{"inputs": "good"}', b'{"inputs": 1}'
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: server.invoke(body, Content_Type=JSON), [good, bad] * 20))
    assert [answer.status for answer in answers] == [200, 400] * 20
    assert all(json.loads(answer.body)[0][0]["label"] == "positive" for answer in answers[::2])


def test_every_socket_is_on_loopback(server: Any) -> None:
    """Of every process the server consists of: launcher, Java, workers."""
    processes = server.processes()
    assert {"java"} <= {process.name() for process in processes}
    listening = [
        connection.laddr
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN or not connection.raddr
    ]
    assert listening
    for address in listening:
        found = ipaddress.ip_address(address.ip)
        mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
        assert (mapped or found).is_loopback, address
    assert not {7070, 7071, 8080, 8081, 8082} & {address.port for address in listening}


def test_two_servers_run_side_by_side_and_leave_nothing(server: Any, toolkit_server: ModuleType, archive: Path) -> None:
    with toolkit_server.serve(archive.parent / "model", TORCHLIFT_MAX_TEXTS="1") as second:
        processes = second.processes()
        two = b'{"inputs": ["good", "bad"]}'
        assert second.invoke(two, Content_Type=JSON).status == 413
        assert server.invoke(two, Content_Type=JSON).status == 200
        scratch = second.log.parent
    assert not [process for process in processes if process.is_running() and process.status() != "zombie"]
    assert not scratch.exists()


def test_a_model_that_cannot_load_never_gets_ready(
    toolkit_server: ModuleType, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from model_code.archive import unpack

    unpack(archive, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    monkeypatch.setattr(toolkit_server, "START_SECONDS", 15)
    with pytest.raises(RuntimeError, match="did not get ready"), toolkit_server.serve(tmp_path / "model"):
        pass
