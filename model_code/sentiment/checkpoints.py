"""Checkpoints that are whole or absent, and resume exactly."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

LATEST = "checkpoint.pt"
BEST = "best.pt"


class CheckpointError(ValueError):
    """A checkpoint that belongs to another training."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in place: a reader sees the old one or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    write(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def save(folder: Path, name: str, state: Mapping[str, Any]) -> None:
    """Write `state` to `folder/name`."""
    write_atomically(folder / name, lambda path: torch.save(dict(state), path))


def load(folder: Path, name: str, *, device: torch.device) -> dict[str, Any]:
    """Read what `save` wrote; tensors and plain values only."""
    state: dict[str, Any] = torch.load(folder / name, map_location=device, weights_only=True)
    return state


def load_latest(folder: Path, *, identity: Mapping[str, Any], device: torch.device) -> dict[str, Any] | None:
    """The latest checkpoint, or None. Raises CheckpointError when it was made with other settings or data."""
    if not (folder / LATEST).is_file():
        return None
    state = load(folder, LATEST, device=device)
    found: dict[str, Any] = state["identity"]
    other = [
        f"{key} was {found.get(key)!r}, is {value!r}" for key, value in identity.items() if found.get(key) != value
    ]
    if other:
        raise CheckpointError(f"{folder / LATEST} belongs to another training: {'; '.join(other)}")
    return state
