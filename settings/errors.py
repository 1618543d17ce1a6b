"""What a user is told about a mistake in a settings file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One mistake: the key as it stands in the file, what was given, why it cannot work, what would be right."""

    key: str
    given: Any
    reason: str
    right: str

    def __str__(self) -> str:
        given = "nothing" if self.given is None else repr(self.given)
        if len(given) > 100:
            given = given[:97] + "..."
        return f"{self.key}: given {given}. {self.reason} Right would be: {self.right}"


class SettingsError(Exception):
    """A settings file cannot be used; the text lists every problem, one a line."""

    def __init__(self, *, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{source} has {count}:", *(f"  - {problem}" for problem in self.problems)]))
