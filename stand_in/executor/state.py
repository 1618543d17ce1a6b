"""What runs and what ran: the content of `/_torchlift/state`."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(kw_only=True)
class JobState:
    """One run of a job; `reason` is empty unless it failed."""

    job: str
    kind: str
    hash: str
    log: Path
    mode: str = "direct"
    state: str = "running"
    reason: str = ""
    started: float = field(default_factory=time.monotonic)
    seconds: float | None = None

    def end(self, state: str, reason: str = "") -> None:
        """Record the end: `succeeded`, `failed` or `stopped`."""
        self.seconds = time.monotonic() - self.started
        self.state, self.reason = state, reason

    def as_json(self) -> dict[str, Any]:
        """The entry under `jobs`."""
        seconds = time.monotonic() - self.started if self.seconds is None else self.seconds
        return {
            "job": self.job,
            "kind": self.kind,
            "hash": self.hash,
            "mode": self.mode,
            "state": self.state,
            "seconds": round(seconds, 1),
            "log": str(self.log),
            "reason": self.reason,
        }


@dataclass(kw_only=True)
class EndpointState:
    """One endpoint, by the server that answers for it now."""

    name: str
    program: str
    version: str
    model: str
    state: str
    url: str | None
    invocations: int

    def as_json(self) -> dict[str, Any]:
        """The entry under `endpoints`."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """A process that the stand-in started; `port` is where it listens, if it does."""

    pid: int
    what: str
    port: int | None = None


class Registry:
    """Keeps the runs of jobs and the living processes; safe to use from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: list[JobState] = []
        self._processes: dict[int, ProcessState] = {}

    def add_job(self, job: JobState) -> JobState:
        """Remember a run; later changes to `job` show."""
        with self._lock:
            self._jobs.append(job)
        return job

    def process_started(self, process: ProcessState) -> None:
        """List a living process."""
        with self._lock:
            self._processes[process.pid] = process

    def process_ended(self, pid: int) -> None:
        """Take a process off the list; harmless when it is not on it."""
        with self._lock:
            self._processes.pop(pid, None)

    def jobs(self) -> list[JobState]:
        """All runs, oldest first."""
        with self._lock:
            return list(self._jobs)

    def processes(self) -> list[ProcessState]:
        """The processes that run now."""
        with self._lock:
            return list(self._processes.values())
