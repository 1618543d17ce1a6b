"""Whatever address a program asks for, behind loopback.py it listens on loopback only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stand_in.executor.triton import LOOPBACK

BIND = """
import json, socket, sys, threading
bound = []
def bind(family, address):
    one = socket.socket(family)
    one.bind(address)
    bound.append(one.getsockname()[:1] if family != socket.AF_UNIX else [one.getsockname()])
bind(socket.AF_INET, ("0.0.0.0", 0))
bind(socket.AF_INET6, ("::", 0))
bind(socket.AF_UNIX, sys.argv[1])
thread = threading.Thread(target=bind, args=(socket.AF_INET, ("", 0)))
thread.start(); thread.join()
print(json.dumps(bound))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(LOOPBACK), *command], capture_output=True, text=True, timeout=60)


def test_wildcard_addresses_become_loopback(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", BIND, str(tmp_path / "socket"))
    assert json.loads(done.stdout) == [["127.0.0.1"], ["::1"], [str(tmp_path / "socket")], ["127.0.0.1"]], done.stderr


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_status_is_the_programs(script: str, status: int) -> None:
    assert run("sh", "-c", script).returncode == status


def test_a_program_that_is_not_there_is_named() -> None:
    done = run("no-such-program")
    assert done.returncode == 2 and "cannot run no-such-program" in done.stderr
