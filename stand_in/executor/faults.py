"""Faults of AWS, made on purpose: a test leaves a file, and the next build or launch of that job fails that way.

Files work from any process: `<state-dir>/faults/<kind>/<job>`, one line a time, the line being AWS's message. Kinds:
`provisioning` (a build fails before its first command) and `launch` (no instance for an Auto Scaling group).
"""

from __future__ import annotations

import threading
from pathlib import Path

KINDS = ("provisioning", "launch")


class Faults:
    """The faults that are still to happen."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "faults"
        self._lock = threading.Lock()

    def inject(self, kind: str, job: str, message: str, *, times: int = 1) -> None:
        """Let the next `times` starts of `job` fail with `message` (one line)."""
        if kind not in KINDS or "\n" in message:
            raise ValueError(f"a fault is one of {', '.join(KINDS)} and its message one line")
        file = self._folder / kind / job
        with self._lock:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as stream:
                stream.write(f"{message}\n" * times)

    def take(self, kind: str, job: str) -> str | None:
        """The next fault's message, which is then used up; None when there is none."""
        file = self._folder / kind / job
        with self._lock:
            if not file.exists():
                return None
            first, *rest = file.read_text().splitlines()
            if rest:
                file.write_text("".join(f"{line}\n" for line in rest))
            else:
                file.unlink()
            return first
