"""Whether containers run here: the three answers, by which CI runs the images suite, leaves it out, or fails.

The tools are fakes, so that this needs neither them nor root; tests/containers asks the real ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stand_in.images import readiness
from stand_in.images.engine import TOOLS

REFUSED = "unshare: unshare failed: Operation not permitted"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which all works: its folder of programs, the only one on PATH, where a test breaks one."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in (*TOOLS, "unshare"):
        program(bin, name, "exit 0")
    monkeypatch.setenv("PATH", str(bin))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return bin


def program(bin: Path, name: str, text: str) -> None:
    (bin / name).write_text(f"#!/bin/sh\n{text}\n")
    (bin / name).chmod(0o755)


def test_containers_run(machine: Path) -> None:
    program(machine, "unshare", f'echo "$*" >>"{machine}/unshare.log"')
    program(machine, "podman", f'echo "$*" >>"{machine}/podman.log"')
    assert readiness.main() == 0
    tried = (machine / "unshare.log").read_text()
    assert all(word in tried for word in ("--mount --pid --net", "mount -t tmpfs", "mount -t proc", "mount -t overlay"))
    assert [line.split()[0] for line in (machine / "podman.log").read_text().splitlines()] == ["import", "run"]


@pytest.mark.parametrize("what", ["proc", "overlay", "true"])
def test_a_kernel_that_refuses_forbids_containers(what: str, machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(machine, "unshare", f'case "$*" in *{what}*) echo "{REFUSED}" >&2; exit 1 ;; esac')
    assert readiness.main() == readiness.FORBIDDEN == 3
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("this machine forbids containers: ") and REFUSED in said


@pytest.mark.parametrize(
    "says", ["mkdir /sys/fs/cgroup/torchlift: read-only file system", "crun: setrlimit: Operation not permitted"]
)
def test_a_refusal_that_podman_meets_forbids_containers(
    says: str, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(machine, "podman", f'[ "$1" != run ] || {{ echo "Error: {says}" >&2; exit 126; }}')
    assert readiness.main() == readiness.FORBIDDEN
    (said,) = capsys.readouterr().err.splitlines()
    assert says in said


def test_a_fault_is_no_refusal(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A setting of ours that podman does not take must not look like a machine that forbids containers."""
    program(machine, "podman", 'echo "Error: unknown key netnss in containers.conf" >&2; exit 125')
    assert readiness.main() == 1
    assert "unknown key" in capsys.readouterr().err


def test_a_missing_tool_is_no_refusal(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (machine / "skopeo").unlink()
    assert readiness.main() == 1
    assert "no skopeo (the Debian package)" in capsys.readouterr().err


def test_a_probe_that_cannot_run_is_no_refusal(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (machine / "unshare").unlink()
    assert readiness.main() == 1
    assert "not known" in capsys.readouterr().err
