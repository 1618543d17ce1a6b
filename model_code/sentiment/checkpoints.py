"""Checkpoints that are whole or absent, and resume exactly.

Each is a folder `step-<number>` that appears only when all of it is written; the highest number is the latest. So
scripts/checkpoints.sh can copy them off the machine while the training goes on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

STATE = "state.pt"
# The latest, and the one before it: somebody may be reading that one still.
KEEP = 2


class CheckpointError(ValueError):
    """A checkpoint that belongs to another training."""


def save(folder: Path, step: int, state: Mapping[str, Any]) -> None:
    """Write `state`, tensors and plain values only, as the checkpoint of `step`; then remove old ones."""
    final = folder / f"step-{step:08}"
    partial = folder / f".{final.name}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with (partial / STATE).open("wb") as file:
        torch.save(dict(state), file)
        file.flush()
        os.fsync(file.fileno())
    shutil.rmtree(final, ignore_errors=True)  # of this very step: a stop right after a save, or a restored copy
    partial.rename(final)
    for old in _stored(folder)[:-KEEP]:
        shutil.rmtree(old)


def load_latest(folder: Path, *, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The latest state, in the CPU's memory, or None. Raises CheckpointError when it has another `identity`."""
    stored = _stored(folder)
    if not stored:
        return None
    state: dict[str, Any] = torch.load(stored[-1] / STATE, map_location="cpu", weights_only=True)
    found: dict[str, Any] = state["identity"]
    other = [
        f"{key} was {found.get(key)!r}, is {value!r}" for key, value in identity.items() if found.get(key) != value
    ]
    if other:
        raise CheckpointError(f"{stored[-1]} belongs to another training: {'; '.join(other)}")
    return state


def _stored(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(folder.glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))
