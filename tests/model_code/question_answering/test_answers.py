"""The chosen answer against a naive search over every span of every window."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_code.question_answering.answers import Found, choose
from model_code.question_answering.compiled import CompiledModel
from model_code.question_answering.windows import Window, cut
from tests.model_code.question_answering.tiny_qa import questions


def window(tokens: int, *, question: int = 2, offset: int = 0) -> Window:
    length = question + 3 + tokens
    spans = [(offset + 3 * place, offset + 3 * place + 2) for place in range(tokens)]
    return Window([0] * length, [0] * length, question + 2, spans)


def naive(
    windows: list[Window], logits: list[tuple[list[float], list[float]]], longest: int, threshold: float | None
) -> Found:
    spans = []
    for one, (start, end) in zip(windows, logits, strict=True):
        for i in range(len(one.spans)):
            for j in range(i, min(i + longest, len(one.spans))):
                spans.append((start[one.first + i] + end[one.first + j], one.spans[i][0], one.spans[j][1]))
    null = min(start[0] + end[0] for start, end in logits)
    total = math.exp(null) + sum(math.exp(score) for score, _, _ in spans)
    best = max(spans, key=lambda span: span[0], default=None)
    if best is None or (threshold is not None and null - best[0] > threshold):
        return Found(0, 0, math.exp(null) / total, has_answer=False)
    return Found(best[1], best[2], math.exp(best[0]) / total, has_answer=True)


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 25), min_size=1, max_size=4),
    longest=st.integers(1, 12),
    threshold=st.none() | st.floats(-5, 5),
    seed=st.integers(0, 10_000),
)
def test_the_best_of_all_spans(sizes: list[int], longest: int, threshold: float | None, seed: int) -> None:
    chance = random.Random(seed)
    windows = [window(size, question=chance.randint(0, 5), offset=100 * place) for place, size in enumerate(sizes)]
    # Multiples of 1/8 are exact, so equal scores are equal in both.
    logits = [
        ([chance.randint(-40, 40) / 8 for _ in one.ids], [chance.randint(-40, 40) / 8 for _ in one.ids])
        for one in windows
    ]
    arrays = [(np.array(start, np.float32), np.array(end, np.float32)) for start, end in logits]
    found = choose(windows, arrays, max_answer_tokens=longest, null_threshold=threshold)
    wanted = naive(windows, logits, longest, threshold)
    assert (found.start, found.end, found.has_answer) == (wanted.start, wanted.end, wanted.has_answer)
    assert found.score == pytest.approx(wanted.score, rel=1e-6)


def test_extreme_logits_give_a_score() -> None:
    one = window(4)
    start, end = np.full(len(one.ids), -1e4, np.float32), np.full(len(one.ids), -1e4, np.float32)
    start[one.first], end[one.first + 1] = 1e4, 1e4
    found = choose([one], [(start, end)], max_answer_tokens=3, null_threshold=0.0)
    assert found == Found(0, 5, found.score, has_answer=True)
    assert found.score == pytest.approx(1.0)


def test_no_answer_needs_every_window_to_say_so() -> None:
    """SQuAD 2.0: the lowest score of no answer counts."""
    windows = [window(3), window(3, offset=50)]
    low, high = np.zeros(8, np.float32), np.zeros(8, np.float32)
    high[0] = 9.0
    assert not choose(windows[:1], [(high, high)], max_answer_tokens=2, null_threshold=0.0).has_answer
    assert choose(windows, [(high, high), (low, low)], max_answer_tokens=2, null_threshold=0.0).has_answer
    assert choose(windows[:1], [(high, high)], max_answer_tokens=2, null_threshold=None).has_answer


def test_windows_of_one_context_answer_like_one_large_window(compiled: CompiledModel) -> None:
    """The answer's characters lie in the context, whichever window they are from."""
    for question, context in questions(30, longest=200, seed=5):
        windows = cut(compiled.tokenizer, question, context, length=64, stride=16, max_windows=99)
        logits = [compiled.run([one])[0] for one in windows]
        found = choose(windows, logits, max_answer_tokens=8, null_threshold=None)
        assert 0 <= found.start < found.end <= len(context)
        assert context[found.start : found.end].strip() == context[found.start : found.end]
        wanted = naive(windows, [(s.tolist(), e.tolist()) for s, e in logits], 8, None)
        assert (found.start, found.end) == (wanted.start, wanted.end)
