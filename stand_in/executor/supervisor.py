"""Runs one command for `processes.spawn` and outlives it just long enough to end everything it started.

    python supervisor.py LIFELINE STATUS COMMAND...

LIFELINE is the reading end of a pipe that the parent holds open: when the parent dies, even by SIGKILL, or lets
go, the kernel closes it, and the command's whole tree is ended. STATUS is a pipe on which the command's process id,
or why it cannot run, is told. A plain script (standard library, no imports of ours) because it must start fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TERM_SECONDS = 5.0
KILL_SECONDS = 5.0


def main() -> int:
    """Start the command, wait for its end or the parent's, end what is left, return the command's status."""
    lifeline, status, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    # What the command's children leave behind (a daemon, a server behind an exited launcher) becomes ours.
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    # A terminal's Ctrl-C and a polite `kill` are for the parent to act on: it lets go of the lifeline.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    child = _start(command, lifeline, status)
    if child is None:
        return 127
    code: int | None = None
    watched = select.poll()
    watched.register(lifeline, select.POLLIN | select.POLLHUP)
    watched.register(os.pidfd_open(child), select.POLLIN)
    while code is None and not any(fd == lifeline for fd, _ in watched.poll(1000)):
        code = _reap(child)
    if code is None:
        code = _end(child)
    _end(None)
    return code


def _start(command: list[str], lifeline: int, status: int) -> int | None:
    """Fork and execute; returns the process id, or None when the command cannot be executed."""
    failed_read, failed_write = os.pipe()  # closed by a successful exec
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(lifeline)
            os.close(status)
            os.setsid()
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(127)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(command[0], command, _given_environment())
        except OSError as error:
            os.write(failed_write, f"{command[0]}: {error.strerror}".encode())
        finally:
            os._exit(127)
    os.close(failed_write)
    reason = os.read(failed_read, 4096)
    os.close(failed_read)
    os.write(status, b"!" + reason if reason else str(pid).encode())
    os.close(status)
    if reason:
        os.waitpid(pid, 0)
        return None
    return pid


def _given_environment() -> dict[bytes, bytes]:
    """The environment as it was given: Python itself adds LC_CTYPE to `os.environ` in a plain C locale."""
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


def _reap(child: int) -> int | None:
    """Collect every ended process; the exit status of `child` (128 + signal when killed) if it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                exit_code = os.waitstatus_to_exitcode(status)
                code = exit_code if exit_code >= 0 else 128 - exit_code
    return code


def _end(child: int | None) -> int:
    """End everything below this process: SIGTERM first, then SIGKILL until nothing is left."""
    code: int | None = None
    for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        told: set[int] = set()
        while alive := _descendants():
            for pid in alive:
                if pid not in told:
                    told.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            time.sleep(0.02)
            ended = _reap(child) if child is not None else _reap(-1)
            code = ended if ended is not None else code
            if time.monotonic() > deadline:
                break
    return 128 + signal.SIGTERM if code is None else code


def _descendants() -> list[int]:
    """Process ids of all living processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                # pid (name) state ppid …; the name may hold anything, so look behind its last parenthesis.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append(int(entry.name))
    found, todo = [], [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    sys.exit(main())
