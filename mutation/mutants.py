"""One-line faults of scripts, systemd units and Dockerfiles: a line deleted, a command that fails, a variable wrong."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ASSIGNMENT = re.compile(r"^(?P<before>\s*(?:local |export )?[A-Za-z_][A-Za-z0-9_]*=)(?P<value>[^\s(].*)$")
NO_COMMAND = re.compile(
    r"""^\s*(?: (?:if|then|else|elif|fi|for|while|until|do|done|case|esac|local|export|function|return|exit)\b
    | [})&|;'"\[(-] | .*\)\s*(?:;;)?$ | .*\(\)\s*\{ | [A-Za-z_][A-Za-z0-9_]*=.*$ )""",
    re.VERBOSE,
)
"""Lines that are no simple command at their beginning."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`path` (from the checkout's root) with one logical line changed; `text` is the whole changed file."""

    path: str
    kind: str
    number: int
    line: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number} {self.kind}: {self.line}"


@dataclass(frozen=True, kw_only=True)
class Survivor:
    """A mutant that no test catches, and why that is right."""

    path: str
    kind: str
    line: str
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        return (self.path, self.line) == (mutant.path, mutant.line) and self.kind in (mutant.kind, "any")


def targets() -> list[tuple[str, list[str]]]:
    """[(pattern of paths, the tests to run)], the first match counts."""
    return [(row["path"], row["tests"]) for row in _table()["target"]]


def _table() -> dict[str, Any]:
    return tomllib.loads((HERE / "targets.toml").read_text())


def watched_by(path: str) -> list[str]:
    """The tests that watch over a file. Raises LookupError when the table says nothing of it."""
    for pattern, tests in targets():
        if fnmatchcase(path, pattern):
            return [*(_table()["scripts"] if path.endswith(".sh") else ()), *tests]
    raise LookupError(f"{path}: name its tests in mutation/targets.toml")


def survivors() -> list[Survivor]:
    """The list of mutants that may live."""
    rows: list[dict[str, Any]] = tomllib.loads((HERE / "survivors.toml").read_text()).get("survivor", [])
    return [Survivor(**row) for row in rows]


def mutants(path: str, text: str) -> list[Mutant]:
    """All mutants of a file that still parse."""
    lines = text.splitlines()
    found = []
    for start, end in _logical(lines):
        for kind, instead in _changes(path, lines[start:end]):
            changed = "\n".join([*lines[:start], *instead, *lines[end:]]) + "\n"
            if _parses(path, changed):
                line = lines[start].strip()
                found.append(Mutant(path=path, kind=kind, number=start + 1, line=line, text=changed))
    return found


def _logical(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Beginning and end of each line with its continuations, without comments and blank lines."""
    start = 0
    while start < len(lines):
        end = start + 1
        while lines[end - 1].endswith("\\") and end < len(lines):
            end += 1
        stripped = lines[start].strip()
        if stripped and not stripped.startswith("#"):
            yield start, end
        start = end


def _changes(path: str, lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    yield "deleted", []
    first = lines[0]
    indent = first[: len(first) - len(first.lstrip())]
    if path.endswith(".sh"):
        if not NO_COMMAND.match(first):
            yield "fails", [f"{indent}false"]
        match = ASSIGNMENT.match(first)
        # `NAME=value command` is no assignment of its own.
        if match and len(lines) == 1 and not re.search(r"[^\"')] \w", match["value"]):
            yield "wrong", [f"{match['before']}wrong"]
    elif path.endswith(".service"):
        if "=" in first:
            yield "wrong", [f"{first.partition('=')[0]}=wrong"]
    elif first.startswith("RUN "):
        yield "fails", ["RUN false"]
    elif re.match(r"(?:ENV|ARG) \w+=", first):
        yield "wrong", [re.sub(r"=.*", "=wrong", first)]


def _parses(path: str, text: str) -> bool:
    if not path.endswith(".sh"):
        return True
    return subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False).returncode == 0
