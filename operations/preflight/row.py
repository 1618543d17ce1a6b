"""One line of a preflight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was looked at, how it is, and what to do unless it passes."""

    name: str
    level: Level
    found: str
    todo: str = ""
