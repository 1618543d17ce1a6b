"""What a training has left in its output folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file


def weights(output: Path) -> dict[str, torch.Tensor]:
    """The model's tensors by name."""
    return load_file(output / "model.safetensors")


def metrics(output: Path) -> dict[str, Any]:
    """What metrics.json says."""
    found: dict[str, Any] = json.loads((output / "metrics.json").read_text())
    return found


def same(one: Path, other: Path) -> bool:
    """Whether two models are equal to the last bit."""
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
