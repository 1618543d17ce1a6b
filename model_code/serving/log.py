"""JSON lines on stdout, written by a thread of their own: a full pipe must not stop the event loop."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from typing import Any

MOST_WAITING = 10_000
PAUSE_SECONDS = 0.02  # lines are written together: to wake the thread for each costs the event loop more than the line

_lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
_writer: threading.Thread | None = None


def start() -> None:
    """Start the writing thread."""
    global _writer
    _writer = threading.Thread(target=_write, name="log", daemon=True)
    _writer.start()


def log(event: str, **fields: Any) -> None:
    """Add a line; it is lost when ten thousand wait already."""
    if _lines.qsize() < MOST_WAITING:
        _lines.put({"time": round(time.time(), 3), "event": event, **fields})


def stop(seconds: float = 2.0) -> None:
    """Write what waits, and end."""
    if _writer is not None:
        _lines.put(None)
        _writer.join(seconds)


def _write() -> None:
    line = _lines.get()
    while line is not None:
        sys.stdout.write(json.dumps(line) + "\n")
        if _lines.empty():
            sys.stdout.flush()
            time.sleep(PAUSE_SECONDS)
        line = _lines.get()
    sys.stdout.flush()
