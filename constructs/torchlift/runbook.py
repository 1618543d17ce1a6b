"""Where an alarm's reader finds what to do."""

from __future__ import annotations

RUNBOOK = "docs/runbooks.md"


def described(text: str, *, section: str) -> str:
    """An alarm's description: what is wrong, and the section of the runbook."""
    return f"{text}. See {RUNBOOK}#{section}"
