"""Windows against a naive cut, on all sorts of texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_code.question_answering.compiled import CompiledModel
from model_code.question_answering.windows import MIN_CONTEXT_TOKENS, InputError, cut
from tests.model_code.question_answering.tiny_qa import WORDS

ODD = ["Café", "中文字", "naïve\u0301", "😀", "\u200b", "\ufb01"]
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300),
    st.lists(st.sampled_from([*WORDS, *ODD]), max_size=120).map(" ".join),
)


@settings(max_examples=300, deadline=None)
@given(question=TEXT.map(lambda text: text[:40]), context=TEXT, length=st.integers(56, 100), stride=st.integers(1, 30))
def test_windows_are_those_of_a_naive_cut(
    compiled: CompiledModel, question: str, context: str, length: int, stride: int
) -> None:
    tokenizer = compiled.tokenizer
    asked = tokenizer.encode(question, add_special_tokens=False).ids
    text = tokenizer.encode(context, add_special_tokens=False)
    windows = cut(tokenizer, question, context, length=length, stride=stride, max_windows=10_000)

    room = length - 3 - len(asked)
    step = room - min(stride, room // 2)
    starts = [0]
    while starts[-1] + room < len(text.ids):
        starts.append(starts[-1] + step)
    assert len(windows) == len(starts)
    for window, start in zip(windows, starts, strict=True):
        part = text.ids[start : start + room]
        assert window.ids == [2, *asked, 3, *part, 3]
        assert window.types == [0] * (len(asked) + 2) + [1] * (len(part) + 1)
        assert window.spans == text.offsets[start : start + room]
        if part:
            assert window.first == len(asked) + 2
        # Characters, not bytes or UTF-16 units: slicing the caller's own text gives the token's.
        for first, last in window.spans:
            assert 0 <= first <= last <= len(context)
    covered = {span for window in windows for span in window.spans}
    assert covered == set(text.offsets)


def test_offsets_are_characters_of_the_original(compiled: CompiledModel) -> None:
    context = "😀😀 Café in 中文 stone"
    (window,) = cut(compiled.tokenizer, "where?", context, length=64, stride=8, max_windows=1)
    assert [context[start:end] for start, end in window.spans][-4:] == ["in", "中", "文", "stone"]


def test_a_long_question_is_refused(compiled: CompiledModel) -> None:
    most = 64 - 3 - MIN_CONTEXT_TOKENS
    cut(compiled.tokenizer, "the " * most, "stone", length=64, stride=8, max_windows=1)
    with pytest.raises(InputError, match=f"The question has {most + 1} tokens; this model takes at most {most}"):
        cut(compiled.tokenizer, "the " * (most + 1), "stone", length=64, stride=8, max_windows=1)


def test_a_long_context_is_refused_and_the_sentence_says_what_would_do(compiled: CompiledModel) -> None:
    def windows(words: int) -> int:
        return len(cut(compiled.tokenizer, "who?", "the " * words, length=64, stride=16, max_windows=3))

    with pytest.raises(InputError, match=r"The context has 500 tokens; .* at most 145 are allowed"):
        windows(500)
    assert windows(145) == 3
    with pytest.raises(InputError):
        windows(146)
