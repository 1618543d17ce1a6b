"""The optimizer and the learning rate over time."""

from __future__ import annotations

from typing import Any

import torch

# Arguments that change the trained weights: a checkpoint made with others is not resumed.
IDENTITY = ("base_model", "epochs", "learning_rate", "max_length", "weight_decay", "warmup_ratio", "seed")


def make_optimizer(
    model: torch.nn.Module, *, learning_rate: float, weight_decay: float, fused: bool
) -> torch.optim.AdamW:
    """AdamW; weight decay for matrices only, since decaying biases and norm scales helps nothing."""
    named: list[tuple[str, Any]] = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    groups = [
        {"params": [value for _, value in named if value.ndim >= 2], "weight_decay": weight_decay},
        {"params": [value for _, value in named if value.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, fused=fused or None)


def schedule(step: int, *, warmup: int, total: int) -> float:
    """Share of the peak learning rate at `step` (from 0): linear rise for `warmup` steps, then fall."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return max(0.0, (total - step) / max(1, total - warmup))
