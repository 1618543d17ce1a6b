"""Every script of ours stops at the first step that fails, also in a pipeline, and knows each of its variables."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from settings import REPO_ROOT

SCRIPTS = [
    REPO_ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.sh"], cwd=REPO_ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
]
SOURCED = "# shellcheck shell=bash"
"""The first line of what other scripts source, whose options count."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(REPO_ROOT)))
def test_a_script_is_strict_from_its_first_command_on(script: Path) -> None:
    lines = [line.strip() for line in script.read_text().splitlines()]
    if lines[0] == SOURCED:
        return
    assert lines[0] in ("#!/bin/bash", "#!/usr/bin/env bash")
    first = next(line for line in lines if line and not line.startswith("#"))
    assert first in ("set -euo pipefail", "set -Eeuo pipefail")


FUNCTION = re.compile(r"^(?P<indent>\s*)(?P<name>[a-z_]+)\(\) \{$")
SET = re.compile(
    r"(?:^|[;&|(){]|\bthen|\bdo)\s*(?:export )?([a-z_]+)\+?=|\bfor ([a-z_]+) in\b|\bread (?:-r )?((?: ?[a-z_]+)+)",
    re.MULTILINE,
)
PROGRAM = re.compile(r"'\n[^']*'")
"""A Python program over several lines, in quotes."""
LOCAL = re.compile(r"^\s*local (.+)$", re.MULTILINE)


def functions(text: str) -> Iterator[tuple[str, str]]:
    """(name, body) of each function that is written over several lines."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := FUNCTION.match(line):
            end = lines.index(f"{match['indent']}}}", number)
            yield match["name"], "\n".join(lines[number + 1 : end])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(REPO_ROOT)))
def test_what_a_function_sets_is_its_own_unless_others_read_it(script: Path) -> None:
    """A name that is not local changes one of the caller's, and works until somebody takes the same."""
    text = PROGRAM.sub("", script.read_text())
    bodies = dict(functions(text))
    outside = text
    for body in bodies.values():
        outside = outside.replace(body, "")
    for name, body in bodies.items():
        local = {word.split("=")[0] for words in LOCAL.findall(body) for word in words.split()}
        written = {word for groups in SET.findall(body) for group in groups for word in group.split()}
        leaked = {word for word in written - local if not re.search(rf"\$\{{?{word}\b|\b{word}=", outside)}
        assert leaked == set(), f"{name}() of {script.name}: say local"
