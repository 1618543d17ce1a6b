"""Runs one job as a process: the same scripts and commands that a build or an instance would run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stand_in.executor import direct
from stand_in.executor.processes import Child, spawn, tail
from stand_in.executor.site import Site
from stand_in.executor.state import JobState, ProcessState

REASON_BYTES = 1000


class SourceMissing(Exception):
    """The job's source bundle cannot be fetched."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a job's process ended: `status` 0 is success, None means that it was stopped or ran out of time."""

    status: int | None
    reason: str
    timed_out: bool = False


@dataclass(kw_only=True)
class JobRun:
    """One run of a job; `run()` blocks until the end, `stop()` may be called from any thread at any time."""

    site: Site
    region: str
    kind: str
    environment: Mapping[str, str]
    number: str
    """What tells this run from others of the same job: a build's or an instance's id."""
    role: str
    """The role that the job's calls are made with, by name or ARN."""
    extra: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    mode: str = "direct"

    def __post_init__(self) -> None:
        self.job = self.environment.get("TORCHLIFT_JOB", "")
        name = re.sub(r"[^A-Za-z0-9._-]", "-", f"{self.kind}-{self.job or 'unnamed'}")
        self.folder = self.site.state_dir / "jobs" / re.sub(r"[^A-Za-z0-9._-]", "-", self.number)
        self.log = self.site.log_path(name)
        self.home = self.folder / "home"
        self.work = self.folder / "work"
        self.state = self.site.registry.add_job(
            JobState(
                job=self.job,
                kind=self.kind,
                hash=self.environment.get("TORCHLIFT_HASH", ""),
                log=self.log,
                mode=self.mode,
            )
        )
        self._child: Child | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    @property
    def stopped(self) -> bool:
        """Whether somebody asked for the end."""
        return self._stopped.is_set()

    def fetch_source(self) -> None:
        """Download and unpack TORCHLIFT_SOURCE into the job's home. Raises SourceMissing."""
        uri = self.environment.get("TORCHLIFT_SOURCE", "")
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        self.home.mkdir(parents=True, exist_ok=True)
        archive = self.folder / "source.zip"
        try:
            self.site.client("s3", self.region, role=self.role).download_file(bucket, key, str(archive))
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(self.home)
        except Exception as error:
            raise SourceMissing(f"cannot fetch {uri or 'the source'}: {error}") from error

    def command(self) -> list[str]:
        """What runs: in direct mode the job's line of the table. Raises direct.NoDirectMode."""
        return list(direct.job(self.job).command)

    def variables(self) -> dict[str, str]:
        """The environment of the job's process. Raises direct.NoDirectMode."""
        line = direct.job(self.job)
        base = self.site.environment(self.region, role=self.role)
        bin_folder = self.site.repo_root / line.venv / "bin"
        python_path = [] if line.code == direct.IN_BUNDLE else [str(self.site.repo_root)]
        return {
            **base,
            **self.environment,
            **self.extra,
            "PATH": os.pathsep.join([str(bin_folder), base["PATH"]]),
            "PYTHONPATH": os.pathsep.join(python_path),
            "TORCHLIFT_HOME": str(self.home),
            "TORCHLIFT_WORK": str(self.work),
            **({"TORCHLIFT_COMMAND": line.instead} if line.instead else {}),
            **line.variables,
            **line.here,
        }

    def run(self, *, started: Callable[[], None] | None = None) -> Ended:
        """Run the job's command in its unpacked source; `started` is called when the process runs.

        Raises direct.NoDirectMode.
        """
        command, variables = self.command(), self.variables()
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "reason.txt").unlink(missing_ok=True)
        with self._lock:
            if self.stopped:
                return Ended(status=None, reason="stopped before it began")
            self._child = self.start(command, variables)
        try:
            if started is not None:
                started()
            try:
                status = self._child.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                self._child.stop()
                return Ended(status=None, reason=f"no end after {self.timeout_s:.0f} s", timed_out=True)
        finally:
            self.site.registry.process_ended(self._child.pid)
        if self.stopped:
            return Ended(status=None, reason="stopped")
        return Ended(status=status, reason="" if status == 0 else self._reason(status))

    def start(self, command: list[str], variables: dict[str, str]) -> Child:
        """Start a process of this job; what it prints goes to the job's log."""
        child = spawn(command, env=variables, cwd=self.home, log=self.log)
        self.site.registry.process_started(ProcessState(pid=child.pid, what=f"{self.kind} {self.job}"))
        return child

    def note(self, text: str) -> None:
        """Add a line of the stand-in's own to the job's log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as stream:
            stream.write(f"stand-in: {text}\n")

    def stop(self) -> None:
        """End the job's processes; `run()` then returns a status of None."""
        self._stopped.set()
        with self._lock:
            child = self._child
        if child is not None:
            child.stop()

    def clean(self) -> None:
        """Remove the job's folder; its log stays."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _reason(self, status: int) -> str:
        """The job's own account of its failure, else the end of its log; at most 1 kB."""
        own = self.work / "reason.txt"
        text = own.read_text(errors="replace").strip() if own.exists() else ""
        text = text or f"exit {status}: {tail(self.log, lines=5, characters=700)}"
        return text.encode()[:REASON_BYTES].decode(errors="ignore")
