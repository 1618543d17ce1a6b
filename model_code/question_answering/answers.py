"""Choose the answer from the logits of all windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model_code.question_answering.windows import Window

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Found:
    """An answer: characters `start` to `end` of the context, both 0 when there is none.

    :param score: probability (0 to 1) of this span, or of there being no answer: softmax over no answer and every
        span of every window
    """

    start: int
    end: int
    score: float
    has_answer: bool


def choose(
    windows: Sequence[Window],
    logits: Sequence[tuple[Logits, Logits]],
    *,
    max_answer_tokens: int,
    null_threshold: float | None,
) -> Found:
    """The best span over all windows, or no answer.

    `logits` holds for each window (start, end), one float per token. A span's score is its start logit plus its end
    logit; that of no answer is the lowest over all windows of the first token's two, as SQuAD 2.0 has it: a window
    without the answer says nothing about the others. Of equal spans the first one wins.
    """
    best, where = -math.inf, (0, 0)
    null = math.inf
    parts: list[tuple[float, float]] = []
    for window, (start, end) in zip(windows, logits, strict=True):
        null = min(null, float(start[0]) + float(end[0]))
        if not window.spans:
            continue
        sums = _span_scores(window, start, end, max_answer_tokens)
        place = int(sums.argmax())
        first, more = divmod(place, sums.shape[1])
        top = float(sums[first, more])
        parts.append((top, float(np.exp(sums - top).sum())))
        if top > best:
            best, where = top, (window.spans[first][0], window.spans[first + more][1])
    no_answer = not parts or (null_threshold is not None and null - best > null_threshold)
    highest = max([null, *(top for top, _ in parts)])
    total = math.exp(null - highest) + sum(math.exp(top - highest) * mass for top, mass in parts)
    score = math.exp((null if no_answer else best) - highest) / total
    return Found(*((0, 0) if no_answer else where), score=score, has_answer=not no_answer)


def _span_scores(window: Window, start: Logits, end: Logits, longest: int) -> NDArray[Any]:
    """(context tokens, longest): the score of the span from token i over j more tokens; -inf beyond the window."""
    count = len(window.spans)
    last = window.first + count
    ends = np.empty(count + longest - 1)
    ends[:count] = end[window.first : last]
    ends[count:] = -np.inf
    # What sliding_window_view makes, at a tenth of its time: row i looks at the ends from i on.
    view: NDArray[Any] = np.ndarray((count, longest), ends.dtype, ends, strides=ends.strides * 2)
    sums: NDArray[Any] = start[window.first : last, None] + view
    return sums
