"""Questions to the person at the terminal. Without a terminal the answer is no."""

from __future__ import annotations

from rich.console import Console


def confirmed(console: Console, question: str) -> bool:
    """Whether the answer to a yes-or-no question is yes."""
    return answer(console, f"{question} [y/N] ").lower() in ("y", "yes")


def answer(console: Console, question: str) -> str:
    """What was typed, without spaces around it; empty when nobody can type."""
    try:
        return console.input(question, markup=False).strip()
    except EOFError:
        return ""
