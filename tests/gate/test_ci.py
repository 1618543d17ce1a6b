"""What decides whether a change lands: `.ci/run`, where make and apt-get only note their calls."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from settings import REPO_ROOT
from stand_in.images.engine import TOOLS
from stand_in.images.readiness import FORBIDDEN

NEEDS = ("bash", "cat", "dirname", "env", "grep", "ls", "python3")
SUITES = ["--jobs 3 setup", "lint", "test", "test-long"]


@dataclass
class Machine:
    """A folder with `.ci/run` in it, on a machine without any of the programs that it installs."""

    folder: Path

    def program(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(self.folder / ".ci/run")],
            env={"PATH": str(self.folder / "bin")},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self, program: str) -> list[str]:
        path = self.folder / f"{program}.log"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    (tmp_path / ".ci").mkdir()
    # What is in these two folders is another machine's.
    text = (REPO_ROOT / ".ci/run").read_text()
    assert text.count(":/usr/sbin:/sbin") == 1
    (tmp_path / ".ci/run").write_text(text.replace(":/usr/sbin:/sbin", ""))
    for name in ("make", "apt-get"):
        machine.program(f"bin/{name}", f'echo "$*" >>"{tmp_path}/{name}.log"')
    for name in ("java", "ldconfig"):
        machine.program(f"bin/{name}", "exit 1")
    for name in NEEDS:
        found = shutil.which(name)
        assert found
        machine.program(f"bin/{name}", f'exec "{found}" "$@"')
    machine.program(".venv/bin/python", "echo containers run")
    return machine


def test_everything_runs_in_ci(machine: Machine) -> None:
    machine.program("bin/make", f'echo "$*" >>"{machine.folder}/make.log"; [ "$CI" = true ]')
    done = machine.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.calls("make") == [*SUITES, "test-images"]


def test_what_is_missing_is_installed_at_once(machine: Machine) -> None:
    machine.run()
    update, install = machine.calls("apt-get")
    assert update.startswith("update")
    assert {*TOOLS, "nginx", "systemd"} <= set(install.split())
    assert "--no-install-recommends" in install


def test_what_is_there_is_not_installed(machine: Machine) -> None:
    for name in (*TOOLS, "nginx", "systemd-analyze"):
        machine.program(f"bin/{name}", "exit 0")
    machine.run()
    assert not {*TOOLS, "nginx", "systemd"} & set(" ".join(machine.calls("apt-get")).split())


def test_where_no_container_runs_it_says_so_and_goes_on(machine: Machine) -> None:
    machine.program(".venv/bin/python", f"echo this machine forbids containers >&2; exit {FORBIDDEN}")
    done = machine.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.calls("make") == SUITES
    assert "THE IMAGES WERE NOT TESTED" in done.stdout and "this machine forbids containers" in done.stdout


@pytest.mark.parametrize("status", [1, 2, 127])
def test_any_other_answer_fails(status: int, machine: Machine) -> None:
    machine.program(".venv/bin/python", f"echo no podman >&2; exit {status}")
    done = machine.run()
    assert done.returncode != 0
    assert machine.calls("make") == SUITES
    assert "no podman" in done.stderr


@pytest.mark.parametrize("suite", [*SUITES, "test-images"])
def test_a_suite_that_fails_ends_it(suite: str, machine: Machine) -> None:
    machine.program("bin/make", f'echo "$*" >>"{machine.folder}/make.log"; [ "$1" != {suite} ]')
    assert machine.run().returncode != 0
    assert machine.calls("make")[-1] == suite
