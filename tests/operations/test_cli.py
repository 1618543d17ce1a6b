"""The operator's command: exit codes, and one clear sentence for what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from operations.cli import main
from settings import names

TEMPLATE = {
    "Resources": {"Marker": {"Type": "AWS::SNS::Topic"}},
    "Outputs": {
        "SentimentEndpointName": {"Value": "torchlift-dev-sentiment-c7g-4xlarge"},
        "WeightsUri": {"Value": f"s3://bucket/{'x' * 150}/"},
        "ExportsOutputRefKey123": {"Value": "internal"},
    },
}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in ("check", "status", "invoke"))


def test_check_says_that_a_deployment_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "dev"]) == 0
    assert "valid" in capsys.readouterr().out


def test_check_prints_every_problem_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "deployments/dev.toml").read_text()
    broken = tmp_path / "dev.toml"
    broken.write_text(text.replace("epochs = ", "epochs = -").replace("[deployment]", "[deployment]\ncolour = 1"))
    assert main(["check", str(broken)]) == 1
    printed = capsys.readouterr().err
    assert "training.epochs" in printed and "deployment.colour" in printed and "Traceback" not in printed


def test_an_unknown_deployment_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "nowhere"]) == 1
    printed = capsys.readouterr().err
    assert "nowhere" in printed and "prod" in printed and "Traceback" not in printed


@pytest.mark.usefixtures("account")
def test_status_without_stacks_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "dev"]) == 1
    assert "No stack of deployment 'dev'" in capsys.readouterr().err


@pytest.mark.usefixtures("account")
def test_status_shows_states_and_outputs_of_this_deployment_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    cloudformation = boto3.client("cloudformation", region_name="us-west-2")
    for name in (names.stack_name("dev", "Graviton"), names.stack_name("prod", "Graviton")):
        cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(TEMPLATE))
    assert main(["status", "dev"]) == 0
    printed = capsys.readouterr().out
    assert "Torchlift-dev-Graviton" in printed and "CREATE_COMPLETE" in printed
    assert "SentimentEndpointName = torchlift-dev-sentiment-c7g-4xlarge" in printed
    assert printed.count("x") >= 150 and "…" not in printed, "values are there to be copied"
    assert "prod" not in printed and "ExportsOutput" not in printed


@pytest.mark.usefixtures("account")
def test_invoke_before_a_deploy_names_the_missing_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["invoke", "dev", "hello"]) == 1
    assert "/torchlift/dev/sentiment/endpoint" in capsys.readouterr().err


def test_no_credentials_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert main(["invoke", "dev", "hello"]) == 1
    printed = capsys.readouterr().err
    assert "credentials" in printed.lower() and "Traceback" not in printed
