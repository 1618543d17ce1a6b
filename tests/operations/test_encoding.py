"""Encoding from the terminal: tokens made here, one model asked, and clear words for what it refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.client import BaseClient
from botocore.response import StreamingBody

from model_code.text_encoding import client as encoder
from operations import encoding
from operations.account import Account
from operations.cli import main
from settings import load_settings
from tests.operations import deployed
from tests.operations.deployed import BUILD, MODELS, client
from tests.serving.triton import models as made

pytestmark = pytest.mark.usefixtures("account")


@pytest.fixture
def bucket(account: None, tmp_path: Path) -> str:
    """A deployment with a model `enc-0` and the tokenizer of its build."""
    found = deployed.multi_model("dev", made.engine())
    client("s3").put_object(Bucket=found, Key=f"{MODELS}enc-0.tar.gz", Body=b"archive")
    for file in tokenizer(tmp_path / "tokenizer").iterdir():
        client("s3").upload_file(str(file), found, f"engines/text-encoding/{BUILD}/tokenizer/{file.name}")
    return found


def tokenizer(folder: Path) -> Path:
    """Every word is token 7, padding token 9."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel

    folder.mkdir()
    words = Tokenizer(WordLevel({"<pad>": 9, "?": 7}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 9}))
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the endpoint was asked. It answers as the encoder of tests/serving/triton with the weights 5 would."""
    requests: list[dict[str, Any]] = []
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation != "InvokeEndpoint":
            return real(self, operation, kwargs)
        requests.append(kwargs)
        wanted, inputs = read(kwargs["Body"], kwargs["ContentType"])
        rows = made.weights(5)[inputs["input_ids"]] * inputs["attention_mask"][:, :, None]
        values = rows if wanted == "last_hidden_state" else rows.sum(1)
        output = {"name": wanted, "datatype": "FP32", "shape": list(values.shape), "data": values.ravel().tolist()}
        body = json.dumps({"model_name": "x", "model_version": "1", "outputs": [output]}).encode()
        return {"Body": StreamingBody(io.BytesIO(body), len(body)), "ContentType": encoder.JSON}

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    return requests


def read(body: bytes, content_type: str) -> tuple[str, dict[str, Any]]:
    """A request's wanted output, and its int32 inputs, from JSON or from the bytes behind it."""
    size = int(content_type.rpartition("=")[2]) if content_type.startswith(encoder.BINARY) else len(body)
    header, rest, found = json.loads(body[:size]), body[size:], {}
    for one in header["inputs"]:
        count = int(np.prod(one["shape"]))
        raw = np.frombuffer(rest[: 4 * count], np.int32) if "data" not in one else np.array(one["data"], np.int32)
        rest = rest[0 if "data" in one else 4 * count :]
        found[one["name"]] = raw.reshape(one["shape"])
    (output,) = header["outputs"]
    return str(output["name"]), found


@pytest.mark.parametrize("wire", ["binary", "json"])
def test_vectors_come_back_in_order_in_both_formats(
    bucket: str, asked: list[dict[str, Any]], wire: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [" ".join(["word"] * (number + 1)) for number in range(10)]
    assert main(["encode", "dev", "enc-0", *texts, "--json", "--wire", wire]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["text"] for one in found] == texts and {one["output"] for one in found} == {"pooler_output"}
    for number, one in enumerate(found):
        np.testing.assert_allclose(one["vector"], made.weights(5)[7] * (number + 1), rtol=1e-5)
    assert [len(read(one["Body"], one["ContentType"])[1]["input_ids"]) for one in asked] == [8, 2], "the engine takes 8"
    assert {one["TargetModel"] for one in asked} == {"enc-0.tar.gz"}
    assert {one["ContentType"].startswith(encoder.BINARY) for one in asked} == {wire == "binary"}


def test_people_see_a_line_a_text(
    bucket: str, asked: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encode", "dev", "enc-0", "a [bold] text"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("pooler_output [4] +25.0000 ") and printed.endswith("…  a [bold] text\n")
    assert main(["encode", "dev", "enc-0", "a text", "--output", "last_hidden_state"]) == 0
    assert "last_hidden_state [16 x 4] +5.0000" in capsys.readouterr().out
    assert main(["encode", "dev", "enc-0", "a text", "--tokenizer", str(tokenizer(tmp_path / "own"))]) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["enc-9", "a"], "has no model 'enc-9'. It has: enc-0."),
        (["enc-0", "a", "--output", "pooled"], "--output pooled: enc-0 has last_hidden_state, pooler_output."),
        (["enc-0", "a", "--tokenizer", "nowhere"], "--tokenizer: nowhere/tokenizer.json is missing"),
    ],
)
def test_what_cannot_be_asked_is_told_before_the_endpoint_is(
    bucket: str, asked: list[dict[str, Any]], arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encode", "dev", *arguments]) == 1
    printed = capsys.readouterr().err
    assert told in printed and printed.count("\n") == 1 and asked == []


@pytest.mark.parametrize("gone", ["engine.json", "tokenizer/tokenizer.json"])
def test_what_the_build_did_not_publish_is_told(
    bucket: str, asked: list[dict[str, Any]], gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client("s3").delete_object(Bucket=bucket, Key=f"engines/text-encoding/{BUILD}/{gone}")
    assert main(["encode", "dev", "enc-0", "a"]) == 1
    printed = capsys.readouterr().err
    assert ("nothing tells what enc-0 takes" if gone == "engine.json" else "--tokenizer") in printed and asked == []


def refusing(monkeypatch: pytest.MonkeyPatch, answers: list[tuple[str, dict[str, Any]]]) -> Callable[[], int]:
    """Let InvokeEndpoint raise these in turn, and answer as before afterwards; returns how many are left."""
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation != "InvokeEndpoint" or not answers:
            return real(self, operation, kwargs)
        code, fields = answers.pop(0)
        kind: Any = self.exceptions.from_code(code)
        raise kind({"Error": {"Code": code, "Message": fields.get("Message", "")}, **fields}, operation)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    return lambda: len(answers)


def test_the_endpoints_own_reason_is_told(
    bucket: str, asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"OriginalStatusCode": 400, "OriginalMessage": '{"error":"unexpected shape for input"}'}
    refusing(monkeypatch, [("ModelError", said)])
    assert main(["encode", "dev", "enc-0", "a"]) == 1
    assert "enc-0.tar.gz: unexpected shape for input" in capsys.readouterr().err


def test_a_model_that_loads_is_waited_for_but_not_for_ever(
    bucket: str, asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(encoding, "PAUSE", 0.0)
    loading = ("ModelNotReadyException", {"Message": "still loading"})
    left = refusing(monkeypatch, [loading, loading])
    assert main(["encode", "dev", "enc-0", "a", "--json"]) == 0
    assert left() == 0 and len(asked) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) and printed.err.count("is being loaded") == 2
    monkeypatch.setattr(encoding, "PATIENCE", -1.0)
    refusing(monkeypatch, [loading])
    assert main(["encode", "dev", "enc-0", "a"]) == 1
    assert "still loading" in capsys.readouterr().err


def test_sagemaker_answers_before_the_client_gives_up() -> None:
    """After 60 s it says that a model still loads."""
    account = Account(load_settings("dev"))
    assert account.client("sagemaker-runtime").meta.config.read_timeout > 60


def test_before_a_deploy_the_missing_parameter_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encode", "dev", "enc-0", "a"]) == 1
    assert "/torchlift/dev/text-encoding/endpoint" in capsys.readouterr().err


def test_an_endpoint_with_one_model_is_asked_without_naming_it(
    bucket: str, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    client("ssm").delete_parameter(Name="/torchlift/dev/text-encoding/models")
    sagemaker, name = client("sagemaker"), "torchlift-dev-text-encoding"
    sagemaker.create_model(
        ModelName="m",
        ExecutionRoleArn=deployed.ROLE,
        PrimaryContainer={"Image": "image", "ModelDataUrl": f"s3://{bucket}/{MODELS}enc-0.tar.gz"},
    )
    variant = {"VariantName": "AllTraffic", "ModelName": "m", "InstanceType": "ml.c5.xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName="c")
    assert main(["encode", "dev", "enc-0", "a"]) == 0
    assert "pooler_output [4]" in capsys.readouterr().out
    assert len(asked) == 1 and "TargetModel" not in asked[0]
    assert main(["encode", "dev", "enc-1", "a"]) == 1
    assert "has no model 'enc-1'. It has: enc-0." in capsys.readouterr().err
    assert main(["models", "list", "dev"]) == 1
    assert 'mode = "single-model"' in capsys.readouterr().err
