"""Whether this machine can run images mode, and what has to be there before it does."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from stand_in.images.engine import Engine, missing_tools
from stand_in.images.lookalikes import look_alike

BASES = ("pytorch-training", "pytorch-inference-arm64")
"""Base images of what the mode builds."""


class CannotRunImages(RuntimeError):
    """This machine cannot build and run images; the message says what it lacks."""


def require() -> None:
    """Raise CannotRunImages unless this machine can run images mode."""
    lacks = [f"{tool} (the Debian package)" for tool in missing_tools()]
    if os.geteuid() != 0:
        lacks.insert(0, f"root (this is user {os.geteuid()})")
    if lacks:
        raise CannotRunImages(f"images mode builds and runs containers, but here is no {', no '.join(lacks)}")


def lasting(root: Path) -> Path:
    """The folder of the engine that keeps look-alikes from one run to the next, in this checkout."""
    return root / "build" / "images"


def state_folder(state_dir: Path) -> Path:
    """What images mode keeps of one stand-in."""
    return state_dir / "images"


def prepare(root: Path) -> None:
    """Make the look-alikes that are not there yet, which takes minutes. Raises CannotRunImages, EngineError."""
    require()
    engine = Engine(lasting(root))
    with (engine.folder / "prepare.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for repository in BASES:
            look_alike(engine, repository, base=os.environ)
