"""One demo at a time per checkout: they would share build/ and the data in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AlreadyRunning(Exception):
    """Another demo of this checkout holds the lock."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an advisory lock on `path`; the kernel drops it when the process ends, however it ends.

    Raises AlreadyRunning, with the other demo's process id, when it is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            raise AlreadyRunning(
                f"a demo of this checkout is already running (process {holder}). Wait for it, or stop it first."
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield
