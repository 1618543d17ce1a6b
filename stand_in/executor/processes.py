"""Child processes that never outlive this one, not even when it is killed with SIGKILL."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

SUPERVISOR = Path(__file__).with_name("supervisor.py")
STOP_SECONDS = 15.0
"""Longer than the supervisor needs at most to end a tree (TERM_SECONDS + KILL_SECONDS)."""


class Child:
    """A running command. Its whole process tree ends with it, with `stop()`, and with this process."""

    def __init__(self, *, pid: int, supervisor: subprocess.Popen[bytes], lifeline: int, log: Path) -> None:
        self.pid = pid
        """Process id of the command itself; it leads its own session and process group."""
        self.log = log
        self._supervisor = supervisor
        self._lifeline: int | None = lifeline
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit status, or None while the command runs; 128 + n when signal n ended it."""
        status = self._supervisor.poll()
        if status is not None:
            self._let_go()
        return status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the command and of all it started. Raises subprocess.TimeoutExpired."""
        status = self._supervisor.wait(timeout)
        self._let_go()
        return status

    def stop(self) -> None:
        """End the whole tree: SIGTERM, and SIGKILL for what is left after 5 seconds. Harmless when repeated."""
        self._let_go()
        try:
            self._supervisor.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, 9)
            self._supervisor.kill()
            self._supervisor.wait()

    def _let_go(self) -> None:
        with self._lock:
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None


def spawn(command: list[str], *, env: dict[str, str], cwd: Path, log: Path) -> Child:
    """Start `command` with exactly `env`; its output is appended to `log`, its input is empty.

    Raises OSError when the command cannot be executed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    lifeline_read, lifeline_write = os.pipe()
    status_read, status_write = os.pipe()
    try:
        with log.open("ab") as output:
            # -I -S: neither the caller's environment nor site packages have a say in the supervisor.
            supervisor = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(SUPERVISOR),
                    str(lifeline_read),
                    str(status_write),
                    *command,
                ],
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(lifeline_read, status_write),
                start_new_session=True,
            )
    except BaseException:
        os.close(lifeline_write)
        os.close(status_read)
        raise
    finally:
        os.close(lifeline_read)
        os.close(status_write)
    with os.fdopen(status_read, "rb") as pipe:
        answer = pipe.read()
    if not answer.isdigit():
        os.close(lifeline_write)
        supervisor.wait()
        raise OSError(f"cannot run {answer[1:].decode(errors='replace') or command[0]}")
    return Child(pid=int(answer), supervisor=supervisor, lifeline=lifeline_write, log=log)


def tail(log: Path, *, lines: int = 15, characters: int = 1500) -> str:
    """The last lines of a log, without empty ones; an empty string when there is no log."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - 65536))
            text = stream.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    kept = [line for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(kept)[-characters:]
