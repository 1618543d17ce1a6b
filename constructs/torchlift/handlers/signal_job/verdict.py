"""What an event means for a job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether the job has ended, how, and why."""

    ended: bool
    success: bool
    reason: str
    told: bool = False
    """People hear of this end otherwise."""
