"""Several things at the same time, none of which may hold up the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

CLOSE_SECONDS = 20.0
"""Longer than a process tree needs at most to end."""


def together(actions: Iterable[Callable[[], object]], *, seconds: float = CLOSE_SECONDS) -> None:
    """Run `actions` side by side and wait for them, `seconds` at most."""
    threads = [threading.Thread(target=action, daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    wait_for(threads, seconds=seconds)


def wait_for(threads: Iterable[threading.Thread], *, seconds: float = CLOSE_SECONDS) -> None:
    """Wait for the end of all threads, `seconds` at most."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
