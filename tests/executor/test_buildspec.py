"""A buildspec's script does what CodeBuild does with its phases."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stand_in.executor.buildspec import BuildspecError, script


def spec(*, env: Mapping[str, Any] | None = None, **phases: list[str]) -> str:
    named = {name: {"commands": commands} for name, commands in phases.items()}
    return json.dumps({"version": "0.2", "env": {"shell": "bash", **(env or {})}, "phases": named})


def run(buildspec: str, tmp_path: Path, **environment: str) -> tuple[int, list[str]]:
    """Exit status, and what the commands printed."""
    done = subprocess.run(
        ["bash", "-c", script(buildspec)], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, [line for line in done.stdout.splitlines() if not line.startswith("[")]


def test_all_commands_share_one_shell_in_the_order_of_the_phases(tmp_path: Path) -> None:
    text = spec(post_build=["echo $A $PWD"], build=["cd /", 'export A="$A b"'], pre_build=['A="$A p"'], install=["A=i"])
    assert run(text, tmp_path) == (0, ["i p b /"])


@pytest.mark.parametrize("phase", ["install", "pre_build"])
def test_a_failure_before_the_build_ends_everything(phase: str, tmp_path: Path) -> None:
    phases: dict[str, list[str]] = {phase: ["(exit 7)", "echo no"], "build": ["echo no"], "post_build": ["echo no"]}
    assert run(spec(env=None, **phases), tmp_path) == (7, [])


def test_after_a_failed_build_post_build_runs_and_the_build_has_failed(tmp_path: Path) -> None:
    assert run(spec(build=["(exit 3)", "echo no"], post_build=["echo after"]), tmp_path) == (3, ["after"])


def test_a_failed_post_build_fails_the_build(tmp_path: Path) -> None:
    assert run(spec(build=["echo yes"], post_build=["(exit 5)"]), tmp_path) == (5, ["yes"])


def test_a_command_of_several_lines_is_one_command(tmp_path: Path) -> None:
    assert run(spec(build=["cat <<'END'\nfalse\nEND\n(exit 0)"]), tmp_path) == (0, ["false"])


def test_variables_of_the_project_win(tmp_path: Path) -> None:
    text = spec(env={"variables": {"A": "it's its own", "B": "own"}}, build=["bash -c 'echo $A, $B'"])
    assert run(text, tmp_path, B="the project's") == (0, ["it's its own, the project's"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("version: 0.2\n", "no JSON"),
        (json.dumps({"version": "0.1"}), "version 0.2"),
        (json.dumps({"version": "0.2", "artifacts": {}}), "artifacts"),
        (json.dumps({"version": "0.2", "env": {"shell": "sh"}}), "shell"),
        (spec(env={"secrets-manager": {}}), "secrets-manager"),
        (spec(deploy=["true"]), "deploy"),
        (json.dumps({"version": "0.2", "env": {"shell": "bash"}, "phases": {"build": {"finally": []}}}), "finally"),
        (json.dumps({"version": "0.2", "env": {"shell": "bash"}, "phases": {"build": {"commands": "true"}}}), "build"),
    ],
)
def test_what_it_does_not_do_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(BuildspecError, match=named):
        script(text)
