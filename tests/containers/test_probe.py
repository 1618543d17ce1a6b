"""The probe that decides whether images run here, on the real kernel: what it allows, and what it is made to refuse."""

from __future__ import annotations

import subprocess
import sys

import pytest

from settings import REPO_ROOT
from stand_in.images.readiness import FORBIDDEN

pytestmark = [pytest.mark.long, pytest.mark.images]


def probe(*wrapper: str) -> subprocess.CompletedProcess[str]:
    command = [*wrapper, sys.executable, "-m", "stand_in.images.readiness"]
    return subprocess.run(command, cwd=REPO_ROOT, capture_output=True, text=True, timeout=200)


def test_containers_run_here(image_tools: None) -> None:
    done = probe()
    assert done.returncode == 0, done.stderr


def test_without_a_capability_they_are_forbidden(image_tools: None) -> None:
    """As in an ordinary container, where CI may run."""
    done = probe("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    assert done.returncode == FORBIDDEN, done.stdout + done.stderr
    assert "Operation not permitted" in done.stderr
