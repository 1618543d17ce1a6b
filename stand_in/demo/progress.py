"""What is going on, while a long command runs: resource events, job states, and the running job's last line."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from settings import names
from stand_in.session import StandIn

QUIET_SECONDS = 15.0
"""How long nothing may be printed before a sign of life is."""


class Progress:
    """Prints changes since the last look, so that a log of the demo reads as its story."""

    def __init__(self, console: Console, stand_in: StandIn) -> None:
        self._console = console
        self._stand_in = stand_in
        self._jobs: dict[str, str] = {}
        self._endpoints: dict[str, str] = {}
        self._last_line: dict[str, str] = {}
        self._started = time.monotonic()
        self._printed = time.monotonic()
        self._known()

    def _known(self) -> None:
        """What an earlier command did is no news."""
        state = self._stand_in.get("/_torchlift/state")
        self._jobs = {_key(job): job["state"] for job in state["jobs"]}
        self._endpoints = {endpoint["name"]: endpoint["state"] for endpoint in state["endpoints"]}

    def look(self) -> None:
        """Ask the stand-in once and print what is new."""
        try:
            state = self._stand_in.get("/_torchlift/state")
        except OSError:
            return
        for job in state["jobs"]:
            self._show_job(job)
        for endpoint in state["endpoints"]:
            if self._endpoints.get(endpoint["name"]) != endpoint["state"]:
                self._endpoints[endpoint["name"]] = endpoint["state"]
                program = f"{endpoint['program']} {endpoint['version']}".strip()
                self._say(f"endpoint {endpoint['name']}: {endpoint['state']} ({program})")
        if time.monotonic() - self._printed > QUIET_SECONDS:
            running = [job["job"] for job in state["jobs"] if job["state"] == "running"]
            elapsed = time.monotonic() - self._started
            self._say(f"still at it after {elapsed:.0f} s{': ' + ', '.join(running) if running else ''}")

    def _show_job(self, job: dict[str, Any]) -> None:
        key = _key(job)
        if self._jobs.get(key) != job["state"]:
            self._jobs[key] = job["state"]
            reason = f": {job['reason']}" if job.get("reason") else ""
            after = f" after {job['seconds']:.0f} s" if job["state"] != "running" else ""
            mode = f" ({job['mode']})" if job["mode"] != "direct" else ""
            self._say(f"job {job['job']}{mode}: {job['state']}{after}{reason}")
        if job["state"] == "running" and (line := _last_line(Path(job["log"]))) and self._last_line.get(key) != line:
            self._last_line[key] = line
            self._say(f"  {job['job']} | {line}")

    def _say(self, line: str) -> None:
        self._printed = time.monotonic()
        self._console.print(
            f"    {line}", style="dim", markup=False, highlight=False, no_wrap=True, overflow="ellipsis"
        )


def _key(job: dict[str, Any]) -> str:
    return f"{job['job']}/{job['hash']}/{job['log']}"


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - 4096))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    # Metrics in the log are for CloudWatch, which takes them out.
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(names.METRIC_LINE)]
    return lines[-1][:160] if lines else ""


@contextmanager
def shown(console: Console, stand_in: StandIn, seconds: float = 2.0) -> Iterator[None]:
    """Look every `seconds` while the block runs."""
    progress = Progress(console, stand_in)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(seconds):
            progress.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=10)
        progress.look()
