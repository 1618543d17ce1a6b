"""A host of images mode: user data below a folder, under the small init, as a process of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stand_in.executor.processes import Child, spawn
from stand_in.executor.site import Site
from stand_in.executor.state import ProcessState
from stand_in.images import host

PROGRAMS = {
    # Whatever answers at that address where this runs is not this host's metadata service.
    "curl": 'case "$*" in *169.254.169.254*) exit 7 ;; esac\nexec "{curl}" "$@"',
    # The size that the launch template asks for: a folder has none of its own.
    "df": 'echo "${{TORCHLIFT_ROOT_GIB}}G"',
}


class HostProcess:
    """`root` is the host's file system; what it prints, and what its unit `unit` prints, is in one log."""

    def __init__(self, *, site: Site, instance_id: str, what: str, unit: str, log: Path) -> None:
        """Take note of it; nothing runs yet.

        :param what: names the process in the state
        :param unit: the unit that user data starts
        """
        self.root = site.state_dir / "hosts" / instance_id
        self._site = site
        self._instance_id = instance_id
        self._what = what
        self._unit = unit
        self._log = log
        self._child: Child | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    @property
    def stopped(self) -> bool:
        """Whether `stop()` was called."""
        return self._stopped.is_set()

    def live(self, user_data: str, *, machine: Mapping[str, str], enter: Sequence[str] = ()) -> int | None:
        """Boot, and wait for the end; the init's status, or None when it was stopped before. Raises OSError.

        :param machine: the environment of a machine with `docker`, and with the role's credentials
        :param enter: goes before the command
        """
        with self._lock:
            if self.stopped:
                return None
            script = self._prepare(user_data)
            # By its file, without a PYTHONPATH, which the host's programs would inherit.
            command = [sys.executable, host.__file__, "--root", str(self.root), "--user-data", str(script)]
            environment = {**machine, "TORCHLIFT_INSTANCE_ID": self._instance_id}
            child = self._child = spawn([*enter, *command], env=environment, cwd=self.root, log=self._log)
        self._site.registry.process_started(ProcessState(pid=child.pid, what=self._what))
        status = child.wait()
        self._site.registry.process_ended(child.pid)
        return status

    def stop(self, *, seconds: float) -> bool:
        """Shut the host down, as far as it does so in time; whether there was one."""
        self._stopped.set()
        with self._lock:
            child = self._child
        if child is None:
            return False
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.kill(child.pid, signal.SIGTERM)
            child.wait(seconds)
        child.stop()
        self._site.registry.process_ended(child.pid)
        return True

    def remove(self) -> None:
        """Delete its file system; its log stays."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _prepare(self, user_data: str) -> Path:
        """The programs that a folder needs to be a host, its log and its user data, whose path is returned."""
        bin = self.root / "stand-in" / "bin"
        bin.mkdir(parents=True)
        for name, text in PROGRAMS.items():
            (bin / name).write_text(f"#!/bin/sh\n{text.format(curl=shutil.which('curl'))}\n")
            (bin / name).chmod(0o755)
        # The unit prints to the console as well as to its journal, and so into one log.
        journal = self.root / "var" / "log" / f"{self._unit}.log"
        journal.parent.mkdir(parents=True)
        journal.symlink_to(self._log)
        script = self.root / "user_data.sh"
        script.write_text(user_data)
        return script
