"""Nothing started through `spawn` survives its parent, however the parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from stand_in.executor.processes import spawn, tail

ENV = {"PATH": os.environ["PATH"]}


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether `condition` becomes true within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_in(file: Path, count: int) -> list[int]:
    assert eventually(lambda: file.exists() and len(file.read_text().split()) >= count)
    return [int(word) for word in file.read_text().split()]


def test_output_is_appended_and_the_status_is_the_commands(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "a.log"
    assert spawn(["bash", "-c", "echo one; exit 3"], env=ENV, cwd=tmp_path, log=log).wait(10) == 3
    assert spawn(["bash", "-c", "pwd; echo two >&2; kill -9 $$"], env=ENV, cwd=tmp_path, log=log).wait(10) == 137
    assert log.read_text().splitlines() == ["one", str(tmp_path), "two"]
    assert tail(log, lines=1) == "two"


def test_a_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program: No such file"):
        spawn(["no-such-program"], env=ENV, cwd=tmp_path, log=tmp_path / "log")


def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    spawn(["env"], env=ENV | {"A": "b c"}, cwd=tmp_path, log=tmp_path / "log").wait(10)
    assert set((tmp_path / "log").read_text().splitlines()) == {f"PATH={ENV['PATH']}", "A=b c"}


def test_wait_runs_into_its_timeout_and_stop_ends_all(tmp_path: Path) -> None:
    script = "trap '' TERM; (trap '' TERM; setsid sleep 60 & echo $!; wait) & echo $!; wait"
    log = tmp_path / "log"
    child = spawn(["bash", "-c", script], env=ENV, cwd=tmp_path, log=log)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.1)
    pids = [child.pid, *pids_in(log, 2)]
    assert child.poll() is None and all(alive(pid) for pid in pids)
    child.stop()
    child.stop()
    assert child.poll() is not None and not any(alive(pid) for pid in pids)


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = spawn(["bash", "-c", "setsid nohup sleep 60 & echo $!; exit 0"], env=ENV, cwd=tmp_path, log=log)
    assert child.wait(10) == 0
    assert not alive(int(log.read_text().split()[0]))


def test_a_thread_that_ends_takes_nothing_with_it(tmp_path: Path) -> None:
    children = []
    thread = threading.Thread(
        target=lambda: children.append(spawn(["sleep", "60"], env=ENV, cwd=tmp_path, log=tmp_path / "log"))
    )
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert children[0].poll() is None
    children[0].stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_a_killed_parent(tmp_path: Path, number: signal.Signals) -> None:
    found = tmp_path / "pids"
    script = f"echo $$ >>{found}; (sleep 60 & echo $! >>{found}; wait) & setsid sleep 61 & echo $! >>{found}; wait"
    program = (
        "import time; from pathlib import Path; from stand_in.executor.processes import spawn\n"
        f"spawn(['bash', '-c', {script!r}], env={ENV!r}, cwd=Path({str(tmp_path)!r}), log=Path('log'))\n"
        "time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=ENV | {"PYTHONPATH": str(Path.cwd())})
    pids = pids_in(found, 3)
    assert all(alive(pid) for pid in pids)
    supervisors = psutil.Process(parent.pid).children()
    parent.send_signal(number)
    parent.wait(10)
    assert eventually(lambda: not any(alive(pid) for pid in [*pids, *(one.pid for one in supervisors)]))
