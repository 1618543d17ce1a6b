"""Which texts of a request go through the model together: alike in length, and never more than memory allows."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Padded tokens of one forward pass. The widest tensor of RoBERTa-base, 3,072 numbers a token, then takes 24 MiB.
BUDGET = 2048
# Padded widths are multiples of this: few shapes, so oneDNN finds its prepared kernels again.
MULTIPLE = 8
# Padding beyond this share of the real tokens starts a new pass, but not below SMALL tokens: there one pass more
# costs more than the padding (RoBERTa-base on one x86 core: 32 tokens alone 103 ms, 8 x 32 tokens 355 ms).
WASTE = 0.25
SMALL = 512


def padded_width(length: int, *, longest: int) -> int:
    """Tokens that a text of `length` tokens is padded to; `longest` is the model's limit."""
    return min(math.ceil(length / MULTIPLE) * MULTIPLE, longest)


def plan(lengths: Sequence[int], *, longest: int) -> list[list[int]]:
    """Indices of every pass, each text once, shortest first. `lengths` are in tokens, each at most `longest`."""
    passes: list[list[int]] = []
    current: list[int] = []
    real = 0
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        padded = padded_width(lengths[index], longest=longest) * (len(current) + 1)
        wasteful = padded > SMALL and padded > (1 + WASTE) * (real + lengths[index])
        if current and (padded > BUDGET or wasteful):
            passes.append(current)
            current, real = [], 0
        current.append(index)
        real += lengths[index]
    return [*passes, current] if current else passes
