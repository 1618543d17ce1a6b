"""What ends a training early: a request to stop, or something that one sentence can explain."""

from __future__ import annotations

import argparse
import errno
import signal
from types import FrameType

import torch

# What torch and safetensors say about a disk that is full; both hide the system's error number.
DISK_FULL = ("No space left on device", "code: 28", "PytorchStreamWriter failed", "inline_container.cc")
NO_MEMORY = ("can't allocate memory", "not enough memory")
STOPPED = 128 + signal.SIGTERM


class Stopped(Exception):
    """The machine is about to go: what there is has been saved."""


class StopRequest:
    """Remembers SIGTERM, which comes before a shutdown or an interruption; a context manager.

    Every rank must, or the first one loses its peers in the middle of a step.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> StopRequest:
        self._before = signal.signal(signal.SIGTERM, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def explain(error: BaseException, options: argparse.Namespace) -> str | None:
    """One sentence on what to do about `error`, or None for a fault of the program."""
    text = " ".join(str(error).split())
    if isinstance(error, torch.OutOfMemoryError):
        return f"the GPU's memory ran out: lower {_size(options)}. {text.partition('. GPU')[0]}"
    if isinstance(error, MemoryError) or any(mark in text for mark in NO_MEMORY):
        return f"the machine's memory ran out: lower {_size(options)}, or take a larger instance_type"
    if (isinstance(error, OSError) and error.errno == errno.ENOSPC) or any(mark in text for mark in DISK_FULL):
        return "the disk is full: raise root_volume_gib (checkpoints take 16 bytes a parameter, two are kept)"
    return None


def _size(options: argparse.Namespace) -> str:
    return f"batch_size ({options.batch_size} now) or max_length ({options.max_length} now)"
