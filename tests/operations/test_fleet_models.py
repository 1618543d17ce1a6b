"""The fleet's models.json: only lists that every server takes, and no operator overwrites another."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from botocore.client import BaseClient

from model_code.serving import model_list
from operations.cli import main
from operations.models import fleet as fleets
from settings import names
from tests.operations import deployed
from tests.operations.deployed import BUILD, TRACE, client
from tests.stacks.synthesis import edited

pytestmark = pytest.mark.usefixtures("account")
KEY = names.fleet_models_key("question-answering", BUILD)
OTHER = "0011223344556677"


@pytest.fixture
def bucket(account: None) -> str:
    """A fleet with one model, and another compiled model in the bucket."""
    found = deployed.fleet("dev")
    deployed.trace(found, OTHER)
    return found


def body(bucket: str) -> bytes:
    found: bytes = client("s3").get_object(Bucket=bucket, Key=KEY)["Body"].read()
    return found


def listed(bucket: str) -> dict[str, tuple[str, float]]:
    """As a server reads it."""
    return {one.name: (one.source, one.weight) for one in model_list.parse(body(bucket).decode())}


def test_a_model_comes_gets_traffic_and_goes(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    baked = f"/opt/torchlift/models/{TRACE}"
    new = f"s3://{bucket}/neuron/question-answering/{OTHER}/"
    assert main(["models", "add", "dev", "next", "--traced", OTHER]) == 0
    assert listed(bucket) == {"model_0": (baked, 1), "next": (new, 0)}, "asked by name only, at first"
    assert main(["models", "set", "dev", "model_0=9", "next=1"]) == 0
    assert listed(bucket) == {"model_0": (baked, 9), "next": (new, 1)}
    capsys.readouterr()
    assert main(["models", "show", "dev"]) == 0
    printed = capsys.readouterr().out
    assert "90.0%" in printed and "10.0%" in printed and max(map(len, printed.splitlines())) <= 80
    assert main(["models", "show", "dev", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {"name": "next", "source": new, "weight": 1.0}
    assert main(["models", "remove", "dev", "model_0", "--workload", "question-answering", "--yes"]) == 0
    assert listed(bucket) == {"next": (new, 1)}


@pytest.mark.parametrize("given", [OTHER, "s3://{bucket}/neuron/question-answering/" + OTHER])
def test_a_dry_run_says_what_it_is_and_changes_nothing(
    bucket: str, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = body(bucket)
    given = given.format(bucket=bucket)
    assert main(["models", "add", "dev", "next", "--traced", given, "--weight", "2", "--dry-run"]) == 0
    assert f"hf://owner/name@{OTHER}, 2 shapes, 0 MiB, Neuron SDK 2.31.1" in capsys.readouterr().out
    assert main(["models", "remove", "dev", "model_0", "--workload", "question-answering", "--dry-run"]) == 0
    assert body(bucket) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["set", "dev", "model_1=1"], "there is no model 'model_1'. There are: model_0."),
        (["set", "dev", "model_0"], "'model_0': expected NAME=WEIGHT"),
        (["set", "dev", "model_0=0"], "every weight is 0"),
        (["set", "dev", "model_0=-1"], "expected a number from 0"),
        (["set", "dev", "model_0=nan"], "expected a number from 0"),
        (["add", "dev", "model_0", "--traced", OTHER], "there is a model 'model_0' already"),
        (["add", "dev", "a/b", "--traced", OTHER], "expected up to 64 letters"),
        (["add", "dev", "next", "--traced", "0" * 16], "no manifest.json there, so no compiled model"),
        (["add", "dev", "next", "--traced", "s3://elsewhere/model/"], "the fleet reads compiled models from s3://"),
        (["add", "dev", "next", "--archive", "x.tar.gz", "--weight", "1"], "--weight goes with --traced"),
        (["remove", "dev", "next", "--workload", "question-answering", "--yes"], "there is no model 'next'"),
        (["remove", "dev", "model_0", "--workload", "question-answering", "--yes"], "at least one model"),
        (["remove", "dev", "model_0", "--workload", "question-answering"], "nothing was removed"),
    ],
)
def test_what_the_servers_would_refuse_changes_nothing(
    bucket: str,
    arguments: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = body(bucket)
    assert main(["models", *arguments]) == 1
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and "Traceback" not in error
    assert body(bucket) == before


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"backend": "cpu"}, "is compiled for cpu; the fleet's own model for neuronx"),
        ({"neuron_sdk": "2.32.0"}, "is compiled by Neuron SDK 2.32.0; the fleet's image has 2.31.1"),
        ({"task": "text-encoding"}, "model.json is for text-encoding"),
        ({"shapes": None}, "not a compiled model"),
        ({"tokenizer_files": ["vocab.txt"]}, "vocab.txt is missing"),
    ],
)
def test_a_model_that_the_fleet_cannot_run_is_refused(
    bucket: str, about: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.trace(bucket, OTHER, **about)
    assert main(["models", "add", "dev", "next", "--traced", OTHER]) == 1
    assert told in capsys.readouterr().err and set(listed(bucket)) == {"model_0"}


def test_an_older_sdk_is_fine(bucket: str) -> None:
    deployed.trace(bucket, OTHER, neuron_sdk="2.9.1")
    assert main(["models", "add", "dev", "next", "--traced", OTHER]) == 0


@pytest.mark.parametrize("fault", ["lost", "cut"])
def test_a_model_that_is_not_whole_is_refused(bucket: str, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    key = f"neuron/question-answering/{OTHER}/model-4x64.pt"
    if fault == "lost":
        client("s3").delete_object(Bucket=bucket, Key=key)
    else:
        client("s3").put_object(Bucket=bucket, Key=key, Body=b"w")
    assert main(["models", "add", "dev", "next", "--traced", OTHER]) == 1
    assert "model-4x64.pt is missing, or not the one" in capsys.readouterr().err


def test_a_model_that_does_not_fit_is_refused_with_the_reason(
    bucket: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {"model": "hf://a/b@" + "0" * 40, "ami_parameter": "/aws/service/x"}
    path = str(edited("dev", {"question_answering": section}, tmp_path))
    assert main(["models", "add", path, "small", "--traced", OTHER]) == 0
    real = fleets.Fleet.trace

    def large(self: fleets.Fleet, url: str) -> fleets.Trace:
        found = real(self, url)
        return fleets.Trace(**{**vars(found), "weights_mib": 6000.0 if OTHER in url else found.weights_mib})

    monkeypatch.setattr(fleets.Fleet, "trace", large)
    assert main(["models", "add", path, "large", "--traced", OTHER]) == 1
    error = capsys.readouterr().err
    assert "3 models do not fit on a core of inf2.xlarge: A core needs" in error and "Remove one first" in error


def test_two_operators_do_not_overwrite_each_other(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = fleets.dump([model_list.Entry(name="theirs", source="/models/x", weight=1.0)]).encode()
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
        if operation == "PutObject" and kwargs["Body"] != theirs:
            client("s3").put_object(Bucket=bucket, Key=KEY, Body=theirs)
        return real(self, operation, kwargs)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    assert main(["models", "set", "dev", "model_0=2"]) == 1
    assert "somebody else just changed" in capsys.readouterr().err
    assert body(bucket) == theirs


@pytest.mark.parametrize("content", [b"{}", b"\xff", b'{"schema": 1, "models": []}'])
def test_a_damaged_list_is_told(bucket: str, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    client("s3").put_object(Bucket=bucket, Key=KEY, Body=content)
    assert main(["models", "show", "dev"]) == 1
    assert "The servers keep the models that they have" in capsys.readouterr().err


def test_no_fleet_and_no_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "show", "dev"]) == 1
    assert "/torchlift/dev/question-answering/models does not exist" in capsys.readouterr().err
    client("s3").delete_object(Bucket=deployed.fleet("dev"), Key=KEY)
    assert main(["models", "show", "dev"]) == 1
    assert "the fleet's first deploy writes it" in capsys.readouterr().err


def test_a_list_that_names_no_compiled_model_cannot_be_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    bucket = deployed.fleet("dev", [{"name": "model_0", "source": "/models/by-hand"}])
    deployed.trace(bucket, OTHER)
    assert main(["models", "add", "dev", "next", "--traced", OTHER]) == 1
    assert "nothing tells what" in capsys.readouterr().err
