"""The life of one instance in images mode: its user data on a host below a folder, its job in a container."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from stand_in.executor.processes import Child, spawn, tail
from stand_in.executor.site import Site
from stand_in.executor.state import JobState, ProcessState
from stand_in.images import host

log = logging.getLogger(__name__)
SHUTDOWN_SECONDS = 15.0
"""For the host's units to end by themselves; EC2 leaves longer, but nothing here has much to save."""
VERDICT = re.compile(r"^torchlift: (SUCCESS|FAILURE): (.*)$", re.MULTILINE)
"""The last line of hosts/instance_job/run.sh."""
UNIT = "torchlift-job.service"
PROGRAMS = {
    # Whatever answers at that address where this runs is not this host's metadata service.
    "curl": 'case "$*" in *169.254.169.254*) exit 7 ;; esac\nexec "{curl}" "$@"',
    # The size that the launch template asks for: a folder has none of its own.
    "df": 'echo "${{TORCHLIFT_ROOT_GIB}}G"',
}


class HostRun:
    """`live()` blocks until the host has ended; `stop()` ends it, and then nothing of it is left but its log."""

    leaving = False
    """Whether the instance asked for its own end: not known here, and the group's desired capacity says it, too."""

    def __init__(
        self,
        *,
        site: Site,
        region: str,
        instance_id: str,
        environment: Mapping[str, str],
        user_data: str,
        machine: Mapping[str, str],
        remove_containers: Callable[[], None],
    ) -> None:
        """Take note of what is to run.

        :param environment: the job's, as the user data carries it
        :param machine: the environment of a machine with `docker`, and with the role's credentials
        """
        self._site = site
        self._region = region
        self._instance_id = instance_id
        self._user_data = user_data
        self._machine = machine
        self._remove_containers = remove_containers
        self._root = site.state_dir / "hosts" / instance_id
        job = environment.get("TORCHLIFT_JOB", "")
        self._log = site.log_path(f"instance-{job or 'unnamed'}")
        self._state = site.registry.add_job(
            JobState(
                job=job,
                kind="instance",
                hash=environment.get("TORCHLIFT_HASH", ""),
                log=self._log,
                mode="images",
            )
        )
        self._child: Child | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def live(self) -> None:
        """Boot the host and wait for its end, which the group is told unless it asked for it."""
        try:
            child = self._boot()
        except Exception as error:  # the group must hear of it
            log.exception("instance %s", self._instance_id)
            self._state.end("failed", f"{type(error).__name__}: {error}")
        else:
            if child is None:
                return
            status = child.wait()
            self._site.registry.process_ended(child.pid)
            if not self._stopped.is_set() and self._state.state == "running":
                self._state.end("failed", f"the host ended with status {status}: {tail(self._log, lines=5)}"[:1000])
        if not self._stopped.is_set():
            # An instance that is off counts as lost.
            with suppress(Exception):
                self._site.own_client("ec2", self._region).terminate_instances(InstanceIds=[self._instance_id])

    def stop(self) -> None:
        """The instance is gone: shut the host down, as far as it does so in time."""
        self._stopped.set()
        with self._lock:
            child = self._child
        if child is not None:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.kill(child.pid, signal.SIGTERM)
                child.wait(SHUTDOWN_SECONDS)
            child.stop()
            self._site.registry.process_ended(child.pid)
            self._remove_containers()
        if self._state.state == "running":
            self._state.end(*self._verdict())
        shutil.rmtree(self._root, ignore_errors=True)

    def _boot(self) -> Child | None:
        bin = self._root / "stand-in" / "bin"
        bin.mkdir(parents=True)
        for name, text in PROGRAMS.items():
            (bin / name).write_text(f"#!/bin/sh\n{text.format(curl=shutil.which('curl'))}\n")
            (bin / name).chmod(0o755)
        # The unit prints to the console as well as to its journal, and so into one log.
        journal = self._root / "var" / "log" / f"{UNIT}.log"
        journal.parent.mkdir(parents=True)
        journal.symlink_to(self._log)
        user_data = self._root / "user_data.sh"
        user_data.write_text(self._user_data)
        # By its file, without a PYTHONPATH, which the host's programs would inherit.
        command = [sys.executable, host.__file__, "--root", str(self._root), "--user-data", str(user_data)]
        environment = {**self._machine, "TORCHLIFT_INSTANCE_ID": self._instance_id}
        with self._lock:
            if self._stopped.is_set():
                return None
            self._child = spawn(command, env=environment, cwd=self._root, log=self._log)
        what = f"instance {self._state.job}"
        self._site.registry.process_started(ProcessState(pid=self._child.pid, what=what))
        return self._child

    def _verdict(self) -> tuple[str, str]:
        """How the job ended by its own account, and why when it failed."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        found = VERDICT.findall(text)
        if not found:
            return "stopped", "the instance was terminated"
        word, reason = found[-1]
        return ("succeeded", "") if word == "SUCCESS" else ("failed", reason)
