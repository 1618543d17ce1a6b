"""Every script of ours stops at the first step that fails, also in a pipeline, and knows each of its variables."""

from __future__ import annotations

import subprocess
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
