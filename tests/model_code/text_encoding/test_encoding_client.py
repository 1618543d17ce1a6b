"""Requests and answers without a server; tests/serving/triton has the real one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from model_code.text_encoding import client
from model_code.text_encoding.client import EncodingError, Limits
from model_code.text_encoding.engine import Shapes
from tests.serving.triton import models

LIMITS = Limits(max_batch=4, max_sequence=40)


def arrays(batch: int = 2, sequence: int = 16) -> dict[str, Any]:
    tokens = np.arange(batch * sequence, dtype=np.int32).reshape(batch, sequence)
    return {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer whose padding id is 3."""
    from tokenizers import Tokenizer, pre_tokenizers, processors
    from tokenizers.models import WordLevel

    folder = tmp_path_factory.mktemp("tokenizer")
    made = Tokenizer(WordLevel({"<s>": 0, "</s>": 1, "a": 2, "<pad>": 3, "?": 4}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<pad>"}))
    return folder


def test_tokens_are_padded_to_a_bucket_and_cut_to_the_limit(tokenizer: Path) -> None:
    found = client.tokenise(tokenizer, ["a", "a a a"], limits=LIMITS)
    assert found["input_ids"].shape == (2, 16) and all(array.dtype == np.int32 for array in found.values())
    assert found["input_ids"][0, :4].tolist() == [0, 2, 1, 3] and set(found["input_ids"][0, 3:].tolist()) == {3}
    assert found["attention_mask"].sum(1).tolist() == [3, 5]
    long = client.tokenise(tokenizer, ["a " * 500], limits=LIMITS)
    assert long["input_ids"].shape == (1, 40) and long["input_ids"][0, -1] == 1, "cut, with its end mark"
    assert client.tokenise(tokenizer, ["a " * 20], limits=LIMITS)["input_ids"].shape == (1, 32)
    of_engine = client.limits_of(models.engine(shapes=Shapes(minimum=(1, 24), optimum=(2, 24), maximum=(8, 64))))
    assert of_engine == Limits(max_batch=8, max_sequence=64, min_sequence=24)
    assert client.tokenise(tokenizer, ["a"], limits=of_engine)["input_ids"].shape == (1, 32), "the engine's shortest"
    nothing: list[Any] = [[], "a text"]
    for texts in nothing:
        with pytest.raises(EncodingError, match="give a list"):
            client.tokenise(tokenizer, texts, limits=LIMITS)


@pytest.mark.parametrize("binary", [True, False])
def test_a_request_says_what_it_holds(binary: bool) -> None:
    body, content_type = client.build(arrays(), outputs=["pooler_output"], binary=binary)
    if binary:
        size = int(content_type.removeprefix("application/vnd.sagemaker-triton.binary+json;json-header-size="))
        header, rest = json.loads(body[:size]), body[size:]
        assert rest == b"".join(array.tobytes() for array in arrays().values())
    else:
        assert content_type == "application/json"
        header = json.loads(body)
        assert header["inputs"][0]["data"] == list(range(32))
    assert [(one["name"], one["shape"], one["datatype"]) for one in header["inputs"]] == [
        ("input_ids", [2, 16], "INT32"), ("attention_mask", [2, 16], "INT32"),
    ]  # fmt: skip
    assert [one["name"] for one in header["outputs"]] == ["pooler_output"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "inputs are none"),
    "no mask": (
        {"input_ids": arrays()["input_ids"]},
        "inputs are input_ids: the model's are input_ids, attention_mask",
    ),
    "int64": ({name: array.astype(np.int64) for name, array in arrays().items()}, "int64: the model takes int32"),
    "one row": ({name: array[0] for name, array in arrays().items()}, r"shape \(16,\): all inputs are \[batch"),
    "unlike": ({**arrays(), "attention_mask": arrays(2, 8)["attention_mask"]}, r"attention_mask has shape \(2, 8\)"),
    "batch": (arrays(5), "the batch has 5 rows: the model takes 1 to 4"),
    "no rows": (arrays(0), "the batch has 0 rows"),
    "long": (arrays(1, 41), "the sequence has 41 tokens: the model takes 1 to 40"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_model_would_refuse_is_not_sent(name: str) -> None:
    inputs, sentence = WRONG[name]

    def never(model: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
        raise AssertionError("it was sent")

    with pytest.raises(EncodingError, match=sentence) as found:
        client.encode(never, "enc-0.tar.gz", inputs, limits=LIMITS)
    assert found.value.status == 0


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (400, b'{"error":"batch-size must be <= 8"}', "enc-0.tar.gz: batch-size must be <= 8"),
        (404, b"", "the endpoint has no such model"),
        (507, b"", "out of memory"),
        (500, b"<html>", "<html>"),
        (200, b"{", "not an answer of Triton"),
        (200, b'{"outputs": [{"name": "x"}]}', "not an answer of Triton"),
    ],
)
def test_refusals_keep_status_and_reason(status: int, body: bytes, sentence: str) -> None:
    with pytest.raises(EncodingError, match=sentence) as found:
        client.encode(lambda *_: (status, client.JSON, body), "enc-0.tar.gz", arrays(), limits=LIMITS)
    assert found.value.status == status


def test_sagemaker_gets_target_model_and_content_type() -> None:
    runtime = boto3.client("sagemaker-runtime", "us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    body, content_type = client.build(arrays(), outputs=["pooler_output"])
    values = np.array([[1.5], [2.5]], np.float32)
    output = {"name": "pooler_output", "datatype": "FP32", "shape": [2, 1], "data": values.ravel().tolist()}
    answer = json.dumps({"model_name": "enc-1.tar.gz", "model_version": "1", "outputs": [output]}).encode()
    expected = {"EndpointName": "e", "TargetModel": "enc-1.tar.gz", "Body": body, "ContentType": content_type}
    with Stubber(runtime) as stub:
        stub.add_response(
            "invoke_endpoint",
            {"Body": StreamingBody(io.BytesIO(answer), len(answer)), "ContentType": client.JSON},
            expected,
        )
        stub.add_client_error(
            "invoke_endpoint", "ModelError", "no",
            response_meta={}, modeled_fields={"OriginalStatusCode": 400, "OriginalMessage": '{"error":"too big"}'},
        )  # fmt: skip
        stub.add_client_error("invoke_endpoint", "ValidationError", "Failed to download model data (enc-9.tar.gz)")
        send = client.sagemaker("e", runtime)
        found = client.encode(send, "enc-1.tar.gz", arrays(), limits=LIMITS, outputs=["pooler_output"])
        np.testing.assert_array_equal(found["pooler_output"], values)
        with pytest.raises(EncodingError, match="too big") as refused:
            client.encode(send, "enc-1.tar.gz", arrays(), limits=LIMITS)
        assert refused.value.status == 400
        with pytest.raises(EncodingError, match="Failed to download") as unknown:
            client.encode(send, "enc-9.tar.gz", arrays(), limits=LIMITS)
        assert unknown.value.status == 404


def test_sagemaker_answers_before_the_client_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 60 s it says that a model still loads, where boto3 by itself would ask again from the start."""
    made: list[Any] = []

    def record(service: str, **arguments: Any) -> Any:
        made.append(arguments["config"])
        return boto3.Session(region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x").client(
            service,  # type: ignore[call-overload]
            **arguments,
        )

    monkeypatch.setattr(boto3, "client", record)
    client.sagemaker("e")
    (config,) = made
    assert config.read_timeout > 60
