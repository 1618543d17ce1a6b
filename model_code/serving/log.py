"""JSON lines on stdout, written by a thread of their own: a full pipe must not stop the event loop."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from typing import Any

_lines: queue.Queue[dict[str, Any] | None] = queue.Queue(maxsize=10_000)
_writer: threading.Thread | None = None


def start() -> None:
    """Start the writing thread."""
    global _writer
    _writer = threading.Thread(target=_write, name="log", daemon=True)
    _writer.start()


def log(event: str, **fields: Any) -> None:
    """Add a line; it is lost when ten thousand wait already."""
    try:
        _lines.put_nowait({"time": round(time.time(), 3), "event": event, **fields})
    except queue.Full:
        return


def stop(seconds: float = 2.0) -> None:
    """Write what waits, and end."""
    if _writer is not None:
        try:
            _lines.put(None, timeout=seconds)
        except queue.Full:
            return
        _writer.join(seconds)


def _write() -> None:
    while (line := _lines.get()) is not None:
        sys.stdout.write(json.dumps(line) + "\n")
        if _lines.empty():
            sys.stdout.flush()
    sys.stdout.flush()
