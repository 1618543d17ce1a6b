"""Batches for training and evaluation: grouped by length, padded only to the longest sentence of a batch."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch

# Sentences are shuffled first and sorted by length only inside groups of this many batches, so that batches
# keep changing from epoch to epoch while little is padded.
GROUP = 50
# Padded lengths are multiples of this: kernels like it, and torch.compile sees fewer shapes.
MULTIPLE = 8


def encode(tokenizer: Any, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
    """Token ids of every sentence, cut at `max_length` tokens, not padded."""
    ids: list[list[int]] = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    return ids


def plan_epoch(lengths: Sequence[int], *, batch: int, seed: int, epoch: int) -> list[list[int]]:
    """Indices of every global batch of one epoch, each sentence once; fixed by seed and epoch."""
    shuffle = random.Random(f"{seed}/{epoch}")  # noqa: S311 - an order, no secret
    order = list(range(len(lengths)))
    shuffle.shuffle(order)
    batches = []
    for start in range(0, len(order), batch * GROUP):
        group = sorted(order[start : start + batch * GROUP], key=lambda index: -lengths[index])
        batches += [group[at : at + batch] for at in range(0, len(group), batch)]
    shuffle.shuffle(batches)
    return batches


def plan_evaluation(lengths: Sequence[int], *, batch: int) -> list[list[int]]:
    """Indices by falling length: the first batch is the largest, so that memory runs out at once or never."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    return [order[at : at + batch] for at in range(0, len(order), batch)]


def pad(ids: Sequence[Sequence[int]], *, pad_id: int, longest: int) -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask` (int64, sentences by length). `longest` is the model's limit."""
    width = min(math.ceil(max(map(len, ids)) / MULTIPLE) * MULTIPLE, longest)
    rows = [list(row) + [pad_id] * (width - len(row)) for row in ids]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in ids]
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(mask)}
