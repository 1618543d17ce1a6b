"""Asking the fleet from the terminal: over real HTTP, with a token where wanted, and plain words for refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from operations.cli import main
from tests.operations.deployed import client
from tests.stacks.synthesis import edited

pytestmark = pytest.mark.usefixtures("account")
URL = "/torchlift/dev/question-answering/url"


class Fleet:
    """A server that answers every question with `reply`, and what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], str | None]] = []
        self.status = 200
        self.reply: Any = {
            "text": "Ada", "score": 0.98765, "start": 24, "end": 27, "has_answer": True, "model": "model_0", "core": 11,
            "timings": {"prepare": 0.1, "queue": 0.1, "inference": 3.0, "total": 3.25},
        }  # fmt: skip
        fleet = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fleet.requests.append((self.path, asked, self.headers["Authorization"]))
                body = fleet.reply if isinstance(fleet.reply, bytes) else json.dumps(fleet.reply).encode()
                self.send_response(fleet.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def fleet(account: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    made = Fleet()
    monkeypatch.delenv("TORCHLIFT_TOKEN", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    client("ssm").put_parameter(Name=URL, Value=made.url, Type="String")
    yield made
    made.server.shutdown()
    made.server.server_close()


def ask(*more: str) -> int:
    return main(["ask", "dev", "Who wrote it?", *more])


def test_the_answer_and_who_gave_it(fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--context", "The book was written by Ada.") == 0
    assert capsys.readouterr().out == "Ada  0.988  [model_0 on core 11, 3.2 ms]\n"
    (tmp_path / "book.txt").write_text("Geschrieben von Änne.", encoding="utf-8")
    assert ask("--context-file", str(tmp_path / "book.txt"), "--model", "next", "--json") == 0
    assert json.loads(capsys.readouterr().out)["core"] == 11
    question = {"question": "Who wrote it?"}
    assert fleet.requests == [
        ("/predict", {**question, "context": "The book was written by Ada."}, None),
        ("/predict", {**question, "context": "Geschrieben von Änne.", "model": "next"}, None),
    ]


def test_no_answer_is_said(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.reply |= {"text": "", "start": 0, "end": 0, "has_answer": False}
    assert ask("--context", "Nothing.") == 0
    assert capsys.readouterr().out.startswith("(the context has no answer)  0.988")


def test_the_token_comes_from_the_environment_or_the_secret(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arn = client("secretsmanager").create_secret(Name="qa", SecretString="s3cret\n")["ARN"]
    section = {"model": "hf://a/b@" + "0" * 40, "ami_parameter": "/aws/service/x", "token_secret_arn": arn}
    path = str(edited("dev", {"question_answering": section}, tmp_path))
    assert main(["ask", path, "Who?", "--context", "Ada."]) == 0
    monkeypatch.setenv("TORCHLIFT_TOKEN", "other")
    assert main(["ask", path, "Who?", "--context", "Ada."]) == 0
    assert [token for _, _, token in fleet.requests] == ["Bearer s3cret", "Bearer other"]


@pytest.mark.parametrize(
    ("status", "reply", "told"),
    [
        (401, {"error": "Send the header."}, "Send the header. Set TORCHLIFT_TOKEN, or token_secret_arn"),
        (404, {"error": "There is no model 'x'."}, "There is no model 'x'."),
        (503, b"<html>", "HTTP 503 without a reason"),
        (200, b"<html>", "not an answer of a question-answering fleet"),
        (200, {"text": "Ada"}, "not an answer of a question-answering fleet"),
    ],
)
def test_refusals_are_one_sentence(
    fleet: Fleet, status: int, reply: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.status, fleet.reply = status, reply
    assert ask("--context", "Ada.") == 1
    error = capsys.readouterr().err
    assert error.startswith("torchlift ask: ") and told in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://internal-x.invalid", "https://127.0.0.1:1", "ftp://x", "x"]
)
def test_unreachable_says_that_the_balancer_is_internal(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--context", "Ada.", "--url", url) == 1
    error = capsys.readouterr().err
    assert "The load balancer is internal" in error and "--url" in error and error.count("\n") == 1


def test_a_server_that_speaks_no_tls(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--context", "Ada.", "--url", fleet.url.replace("http:", "https:")) == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_nothing_deployed_and_a_context_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--context", "Ada.") == 1
    assert f"the SSM parameter {URL} does not exist" in capsys.readouterr().err
    (tmp_path / "x").write_bytes(b"\xff")
    assert ask("--context-file", str(tmp_path / "x"), "--url", "http://127.0.0.1:1") == 1
    assert "not UTF-8" in capsys.readouterr().err
    assert ask("--context-file", str(tmp_path / "none"), "--url", "http://127.0.0.1:1") == 1
    assert "No such file" in capsys.readouterr().err
