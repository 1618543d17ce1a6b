"""What a proof runs, by the workloads of the settings; tests/deploy runs it whole against the stand-in."""

from __future__ import annotations

import pytest

from operations.cli import _parser
from operations.proof import steps
from settings import load_settings


def asked(**changes: object) -> list[list[str]]:
    """The operator's commands of a proof of `dev`, without the interpreter in front."""
    settings = load_settings("dev").model_copy(update=changes)
    return [step.command[3:] for step in steps("dev", settings) if "operations.cli" in step.command]


def test_each_workload_of_the_settings_is_asked() -> None:
    whole = [" ".join(words) for words in asked()]
    without = [" ".join(words) for words in asked(text_encoding=None, question_answering=None)]
    assert whole[0] == "preflight dev" and whole[-1] == "teardown dev --yes"
    for start in ("invoke dev ", "models list dev", "encode dev encoder-0 ", "encode dev encoder-1 "):
        assert any(line.startswith(start) for line in whole), start
    assert not any(line.startswith(("models", "encode")) for line in without)
    assert not any(" ".join(words).startswith("invoke") for words in asked(sentiment=None))
    assert ["models", "show", "dev"] in asked(question_answering=object())
    assert ["models", "show", "dev"] not in asked(question_answering=None)


@pytest.mark.parametrize("command", asked(), ids=lambda words: " ".join(words[:3]))
def test_the_command_line_takes_every_step(command: list[str]) -> None:
    assert _parser().parse_args(command).deployment == "dev"
