"""The client, against the protocol and a stubbed endpoint."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from model_code.sentiment.client import AnswerError, Judgement, ask, build_request, parse_answer
from model_code.sentiment.protocol import RequestError, format_answer, parse_request


def test_what_the_client_sends_is_what_the_server_reads() -> None:
    body = build_request(["caf\u00e9", "zwei"], top_k=1)
    request = parse_request(body, "application/json", max_texts=2)
    assert (request.texts, request.top_k) == (["caf\u00e9", "zwei"], 1)


def test_what_the_server_answers_is_what_the_client_reads() -> None:
    answer = format_answer(["no", "yes"], [[0.25, 0.75], [0.5, 0.5]], None).encode()
    assert parse_answer(answer, texts=2)[0] == [Judgement("yes", 0.75), Judgement("no", 0.25)]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error": "x"}', b"[[]]", b'[[{"label": "a"}]]', b"\xff", b"[1]"])
def test_an_answer_of_another_kind_is_refused(body: bytes) -> None:
    with pytest.raises(AnswerError):
        parse_answer(body, texts=1)


def test_a_lone_text_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="list of texts"):
        build_request("good")


@pytest.fixture
def runtime() -> Any:
    return boto3.client(
        "sagemaker-runtime",
        region_name="us-west-2",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


def test_ask_sends_to_the_endpoint_by_name(runtime: Any) -> None:
    body = format_answer(["no", "yes"], [[0.25, 0.75]], 1).encode()
    with Stubber(runtime) as stub:
        stub.add_response(
            "invoke_endpoint",
            {"Body": io.BytesIO(body), "ContentType": "application/json"},
            {
                "EndpointName": "e", "ContentType": "application/json", "Accept": "application/json",
                "Body": json.dumps({"inputs": ["fine"], "parameters": {"top_k": 1}}).encode(),
            },
        )  # fmt: skip
        assert ask("e", ["fine"], top_k=1, client=runtime) == [[Judgement("yes", 0.75)]]


@pytest.mark.parametrize(
    ("original", "status", "sentence"),
    [
        ('{"error": "\'inputs\' is empty."}', 400, "'inputs' is empty."),
        ("plain words", 502, "plain words"),
        ("", 500, "Received server error"),
    ],
)
def test_the_endpoints_own_sentence_reaches_the_caller(runtime: Any, original: str, status: int, sentence: str) -> None:
    with Stubber(runtime) as stub:
        stub.add_client_error(
            "invoke_endpoint", "ModelError", "Received server error", 424,
            modeled_fields={"OriginalStatusCode": status, "OriginalMessage": original},
        )  # fmt: skip
        with pytest.raises(RequestError) as refused:
            ask("e", ["x"], client=runtime)
    assert (refused.value.status, str(refused.value)) == (status, sentence)


def test_importing_the_client_loads_nothing_heavy() -> None:
    script = (
        "import sys; import model_code.sentiment.client\n"
        "assert not {'torch', 'transformers', 'boto3', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
