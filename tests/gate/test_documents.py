"""README and docs: every link, file, command and option that they name exists."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from awscli.clidriver import create_clidriver

from operations.cli import _parser
from settings import REPO_ROOT

DOCUMENTS = [REPO_ROOT / "README.md", *sorted((REPO_ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
"""In blocks and in lines: no links there, and commands only there."""
FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|sh|md|toml|json|txt|in))(?:::\w+)?`")
MADE = ("build/",)
"""Files that commands write."""


@pytest.fixture(params=DOCUMENTS, ids=lambda path: path.name)
def document(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def anchors(document: Path) -> set[str]:
    """Headings as GitHub names them in addresses."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(document: Path, program: str) -> list[list[str]]:
    """The words after `program`, wherever a line of code or a part of one begins with it; without comments."""
    lines = [line for code in CODE.findall(document.read_text()) for line in code.strip("`").splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r"&&|; ", line.partition(" #")[0])]
    return [shlex.split(part)[1:] for part in parts if part.split()[:1] == [program]]


def test_links(document: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL))
    for target in targets:
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_files(document: Path) -> None:
    """Named from the top; tests also from `tests/`, as checks and troubleshooting say."""
    for name in FILE.findall(document.read_text()):
        if not name.startswith(MADE):
            assert (REPO_ROOT / name).exists() or (REPO_ROOT / "tests" / name).exists(), name


def test_make(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPO_ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {words[0] for words in commands(document, "make") if words} <= targets


def test_torchlift(document: Path) -> None:
    for words in commands(document, "torchlift"):
        parser, rest = _parser(), words
        while rest and (inner := subcommands(parser)):
            assert rest[0] in inner, words
            parser, rest = inner[rest[0]], rest[1:]
        known = {option for action in parser._actions for option in action.option_strings}
        assert {word for word in rest if word.startswith("-")} <= known, words


def subcommands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found[0].choices if found else {}


def test_aws(document: Path) -> None:
    """Against the AWS CLI of the tests, which is version 1; `aws logs tail` is one of version 2 alone."""
    everything: Any = create_clidriver().create_help_command()
    for service, operation, *rest in commands(document, "aws"):
        if (service, operation) == ("logs", "tail"):
            continue
        operations = everything.command_table[service].create_help_command().command_table
        known = {*everything.arg_table, *operations[operation].create_help_command().arg_table}
        assert {word.removeprefix("--") for word in rest if word.startswith("--")} <= known, (service, operation)
