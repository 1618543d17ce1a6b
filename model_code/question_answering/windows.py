"""Cut a question and a context into rows of tokens that a compiled model takes."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Tokenizer

# A window must have room for a bit of context, or a long question would make thousands of windows.
MIN_CONTEXT_TOKENS = 8


class InputError(ValueError):
    """A question or context that cannot be answered; the sentence is for the caller."""


@dataclass(frozen=True)
class Window:
    """One row: the question and a part of the context.

    :param ids: token ids with special tokens, without padding
    :param types: token type ids, one per token
    :param first: place in `ids` of the first context token
    :param spans: (start, end) characters in the whole context, one per context token of this window
    """

    ids: list[int]
    types: list[int]
    first: int
    spans: list[tuple[int, int]]

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.ids)


def cut(
    tokenizer: Tokenizer, question: str, context: str, *, length: int, stride: int, max_windows: int
) -> list[Window]:
    """Windows of at most `length` tokens over the context; neighbours share `stride` tokens (fewer beside a question
    so long that the context's part has no room for twice as many). Raises InputError.

    `tokenizer` must neither truncate nor pad.
    """
    asked = tokenizer.encode(question, add_special_tokens=False)
    text = tokenizer.encode(context, add_special_tokens=False)
    room = length - tokenizer.num_special_tokens_to_add(True) - len(asked.ids)
    if room < MIN_CONTEXT_TOKENS:
        most = len(asked.ids) + room - MIN_CONTEXT_TOKENS
        raise InputError(f"The question has {len(asked.ids)} tokens; this model takes at most {most}.")
    shared = min(stride, room // 2)
    windows = 1 + max(0, -(-(len(text.ids) - room) // (room - shared)))
    if windows > max_windows:
        most = room + (max_windows - 1) * (room - shared)
        raise InputError(f"The context has {len(text.ids)} tokens; beside this question at most {most} are allowed.")
    text.truncate(room, stride=shared)
    whole = tokenizer.post_process(asked, text)
    return [_window(encoding) for encoding in (whole, *whole.overflowing)]


def _window(encoding: object) -> Window:
    sides = encoding.sequence_ids  # type: ignore[attr-defined]  # tokenizers' Encoding is not exported as a type
    # Without context tokens (a context of control characters only) there is nothing to choose from.
    first = sides.index(1) if 1 in sides else len(sides)
    count = sides.count(1)
    return Window(
        ids=encoding.ids,  # type: ignore[attr-defined]
        types=encoding.type_ids,  # type: ignore[attr-defined]
        first=first,
        spans=encoding.offsets[first : first + count],  # type: ignore[attr-defined]
    )
