"""docs/troubleshooting.md: whoever says "impossible" names a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from settings import REPO_ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (REPO_ROOT / "docs/troubleshooting.md").read_text().splitlines()
    if line.startswith("| ") and "---" not in line
][1:]


def test_there_are_rows() -> None:
    assert len(ROWS) > 30
    assert all(len(row) == 3 and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_row(row: list[str]) -> None:
    assert re.match(r"impossible|handled|\*\*yours\*\*", row[2]), row[2]
    for name in re.findall(r"`([\w/]+\.py(?:::\w+)?)`", row[2]):
        file, _, test = name.partition("::")
        tree = ast.parse((REPO_ROOT / "tests" / file).read_text())
        assert not test or test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name
