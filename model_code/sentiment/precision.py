"""Whether an endpoint's weights are held in bfloat16, and how it is warmed up; serving only."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from model_code.sentiment.classifier import Classifier

logger = logging.getLogger(__name__)

VARIABLE = "TORCHLIFT_BF16"
CPUINFO = Path("/proc/cpuinfo")
# Linux's names: Graviton 3 and later; x86 with AVX-512 or AMX. Elsewhere bfloat16 is emulated, slower than float32.
FLAGS = frozenset({"bf16", "avx512_bf16", "amx_bf16"})
# (words, texts): a single word, a sentence, several, a paragraph, more than any model takes.
SHAPES: Sequence[tuple[int, int]] = ((1, 1), (24, 1), (24, 8), (120, 1), (2_000, 1))
WARM_UP_SECONDS = 20.0


def wanted() -> bool:
    """TORCHLIFT_BF16, "true" or "false"; false without it. Raises ValueError."""
    given = os.environ.get(VARIABLE, "false")
    if given not in ("true", "false"):
        raise ValueError(f"{VARIABLE} is {given!r}; right would be 'true' or 'false'")
    return given == "true"


def supported(cpuinfo: str) -> bool:
    """Whether a processor with this /proc/cpuinfo computes in bfloat16 (lines `Features` on Arm, `flags` on x86)."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features") and FLAGS & set(value.split()):
            return True
    return False


def choose(classifier: Classifier) -> None:
    """Turn the weights to bfloat16 where that is wanted and the processor can; say in the log what came of it.

    Against autocast (MiniLM, 2,000 tweets): scores move as little (0.015 and 0.017 at most, 5 and 3 labels change, all
    with margins of 0.005 and below), in half the memory, and RoBERTa-base takes half the time (11 and 22 ms a text).
    """
    reason = f"{VARIABLE} is not true"
    if wanted():
        reason = "this processor has no bfloat16"
        if supported(CPUINFO.read_text(encoding="utf-8", errors="replace") if CPUINFO.exists() else ""):
            classifier.model.to(torch.bfloat16)
            reason = f"{VARIABLE} is true"
    dtype = str(next(classifier.model.parameters()).dtype).removeprefix("torch.")
    logger.info("weights in %s (%s), %d threads", dtype, reason, torch.get_num_threads())


def warm_up(classifier: Classifier, *, seconds: float = WARM_UP_SECONDS) -> None:
    """Judge texts of the usual shapes, so that no caller pays for a first time; no new shape after `seconds`.

    Raises what judging raises.
    """
    end = time.monotonic() + seconds
    for words, texts in SHAPES:
        classifier.scores(["good " * words] * texts)
        if time.monotonic() > end:
            return
