"""How a rule over valid values is written, and where all of them are registered."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from settings.errors import Problem

Values = dict[str, Any]
"""Valid values by dotted key, defaults included."""


@dataclass(frozen=True)
class Rule:
    """`check` gets the values and the repository root, and yields problems."""

    needs: tuple[str, ...]
    check: Callable[[Values, Path], Iterator[Problem]]


RULES: list[Rule] = []


def rule(*needs: str) -> Callable[[Callable[[Values, Path], Iterator[Problem]]], Callable[..., Iterator[Problem]]]:
    """Register a rule that runs when all of `needs` are valid."""

    def register(check: Callable[[Values, Path], Iterator[Problem]]) -> Callable[..., Iterator[Problem]]:
        RULES.append(Rule(needs, check))
        return check

    return register


def nearest(given: str, known: list[str] | tuple[str, ...], otherwise: str) -> str:
    """The known name closest to `given`, or `otherwise`."""
    found = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return found[0] if found else otherwise
