"""A bar for bytes that move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

Moved = Callable[[int], None]
"""Called with the number of bytes that went over the line since the last call."""


@contextmanager
def moving(console: Console, text: str, total: int) -> Iterator[Moved]:
    """A bar in a terminal, nothing elsewhere; yields what is called with the bytes that moved."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=total)

        def advance(count: int) -> None:
            bar.update(task, advance=count)

        yield advance
