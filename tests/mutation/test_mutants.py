"""Mutants are made as said, each file has tests, and a small sample of the scripts' mutants is caught."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from mutation.__main__ import checkout, end_what_is_left, files, run
from mutation.mutants import Mutant, mutants, survivors, watched_by
from settings import REPO_ROOT

SCRIPT = """#!/bin/bash
# A comment.
set -eu
name="${1:-}"
if [ -n "$name" ]; then
  aws s3 cp --quiet \\
    a b
fi
A=1 command
exit 0
"""


def kinds(path: str, text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in mutants(path, text):
        found.setdefault(one.line, set()).add(one.kind)
    return found


def test_mutants_of_a_script() -> None:
    assert kinds("a.sh", SCRIPT) == {
        "set -eu": {"deleted", "fails"},
        'name="${1:-}"': {"deleted", "wrong"},
        # Without it the script would not parse if it were deleted: an empty branch.
        "aws s3 cp --quiet \\": {"fails"},
        "A=1 command": {"deleted"},
        "exit 0": {"deleted"},
    }
    (failing,) = [one for one in mutants("a.sh", SCRIPT) if one.kind == "fails" and one.number == 6]
    assert failing.text == SCRIPT.replace("  aws s3 cp --quiet \\\n    a b\n", "  false\n")
    (wrong,) = [one for one in mutants("a.sh", SCRIPT) if one.kind == "wrong"]
    assert wrong.text == SCRIPT.replace('"${1:-}"', "wrong")


def test_mutants_of_units_and_dockerfiles() -> None:
    assert kinds("a.service", "[Unit]\n# why\nAfter=b.service\n") == {
        "[Unit]": {"deleted"},
        "After=b.service": {"deleted", "wrong"},
    }
    assert kinds("Dockerfile", "ARG BASE\nFROM ${BASE}\nENV A=1 \\\n    B=2\nRUN a && \\\n    b\n") == {
        "ARG BASE": {"deleted"},
        "FROM ${BASE}": {"deleted"},
        "ENV A=1 \\": {"deleted", "wrong"},
        "RUN a && \\": {"deleted", "fails"},
    }


def test_every_script_unit_and_dockerfile_has_mutants_and_tests() -> None:
    assert len(files()) > 20
    for path in files():
        assert mutants(path, (REPO_ROOT / path).read_text()), path
        for test in watched_by(path):
            assert (REPO_ROOT / test).exists(), test
    with pytest.raises(LookupError, match=r"docs/new\.sh: name its tests in mutation/targets\.toml"):
        watched_by("docs/new.sh")


def test_every_survivor_is_still_a_mutant_and_has_a_reason() -> None:
    for entry in survivors():
        made = mutants(entry.path, (REPO_ROOT / entry.path).read_text())
        assert any(entry.covers(one) for one in made), entry
        assert len(entry.reason) >= 20, entry


def test_what_a_mutant_left_running_is_ended_and_nothing_else(tmp_path: Path) -> None:
    folders = [tmp_path / "1", tmp_path / "11"]
    ours, other = (
        subprocess.Popen(["sleep", "60"], env={**os.environ, "TMPDIR": str(folder / "tmp")}) for folder in folders
    )
    try:
        end_what_is_left(folders[0])
        assert ours.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_sample_is_caught_and_a_harmless_change_is_not(tmp_path: Path) -> None:
    path = "scripts/signal.sh"
    text = (REPO_ROOT / path).read_text()
    made = [one for one in mutants(path, text) if one.line.startswith(("status=", 'say "signalled', "sleep"))]
    assert len(made) == 6
    harmless = Mutant(path=path, kind="deleted", number=2, line="# signal.sh", text=text.replace("# signal.sh", "#"))
    workers = [checkout(tmp_path / name / "checkout") for name in ("a", "b")]
    assert run([*made, harmless], workers, timeout=200) == [harmless]
    assert all((worker / path).read_text() == text for worker in workers)
