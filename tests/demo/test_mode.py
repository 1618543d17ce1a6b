"""The demo's mode: said at the start, and refused where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from settings import REPO_ROOT
from stand_in.demo.mode import sentence
from stand_in.images import engine, readiness


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can run images, or seems to."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(readiness, "missing_tools", list)
    monkeypatch.setattr(readiness, "KERNEL", {})
    monkeypatch.setattr(readiness, "_try_a_container", lambda: None)


def test_direct_is_the_default_and_says_whether_there_is_another(able: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentence("direct").startswith("direct, the default") and "MODE=images" in sentence("direct")
    monkeypatch.setattr(readiness, "missing_tools", lambda: ["podman"])
    assert sentence("direct").startswith("direct, the default") and "MODE=images" not in sentence("direct")


def test_images_says_what_runs_in_them(able: None) -> None:
    assert "of the three workloads run as the templates say, in images that are built here" in sentence("images")


def test_what_is_missing_is_named(able: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(readiness, "missing_tools", lambda: ["podman", "skopeo"])
    with pytest.raises(readiness.CannotRunImages, match=r"no root.*1000.*no podman.*no skopeo"):
        sentence("images")


def test_the_demo_ends_at_once_where_images_cannot_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stand_in.demo", "--mode", "images"],
        cwd=REPO_ROOT, env={**os.environ, "PATH": "/nowhere"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert all(tool in done.stdout for tool in engine.TOOLS), done.stdout
