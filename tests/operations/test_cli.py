"""The operator's command: exit codes, and one clear sentence for what went wrong."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from operations.cli import _parser, main
from settings import names

TEMPLATE = {
    "Resources": {"Marker": {"Type": "AWS::SNS::Topic"}},
    "Outputs": {
        "SentimentEndpointName": {"Value": "torchlift-dev-sentiment-c7g-4xlarge"},
        "WeightsUri": {"Value": f"s3://bucket/{'x' * 150}/"},
        "ExportsOutputRefKey123": {"Value": "internal"},
    },
}


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in ("check", "status", "invoke", "preflight", "teardown", "versions"))


def commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that does something, as the words that call it."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield words
    for group in groups:
        for name, sub in group.choices.items():
            yield from commands(sub, (*words, name))


@pytest.mark.parametrize("words", list(commands(_parser())), ids=" ".join)
def test_help_has_an_example_and_the_permissions(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    printed = capsys.readouterr().out
    assert f"torchlift {' '.join(words)} " in printed.partition("example")[2]
    assert "IAM: " in printed and "exit status" in printed


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
    assert "no stack of deployment 'dev'" in capsys.readouterr().err


@pytest.mark.usefixtures("account")
def test_status_shows_states_and_outputs_of_this_deployment_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    cloudformation = boto3.client("cloudformation", region_name="us-west-2")
    for name in (names.stack_name(deployment, "Graviton") for deployment in ("dev", "dev-2", "prod")):
        cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(TEMPLATE))
    assert main(["status", "dev"]) == 0
    printed = capsys.readouterr().out
    assert "Torchlift-dev-Graviton" in printed and "CREATE_COMPLETE" in printed
    assert "SentimentEndpointName = torchlift-dev-sentiment-c7g-4xlarge" in printed
    assert printed.count("x") >= 150 and "…" not in printed, "values are there to be copied"
    assert "prod" not in printed and "dev-2" not in printed and "ExportsOutput" not in printed


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
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    assert main(["invoke", "dev", "hello"]) == 1
    printed = capsys.readouterr().err
    assert "credentials" in printed.lower() and "Traceback" not in printed
