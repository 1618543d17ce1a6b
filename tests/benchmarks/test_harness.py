"""The harness: what it measures, and that results of other benchmarks stay."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.harness import compare, record


def test_it_alternates_and_reports_the_median_ratio(tmp_path: Path) -> None:
    calls: list[str] = []

    def ours() -> None:
        calls.append("ours")
        time.sleep(0.02)

    def other() -> None:
        calls.append("other")
        time.sleep(0.01)

    result = compare(ours, other, repeats=3, command="x")
    assert calls == ["ours", "other"] * 4
    assert result.low <= result.ratio <= result.high and result.ours > result.other


def test_results_are_merged_by_id(tmp_path: Path) -> None:
    path = tmp_path / "build" / "benchmarks.json"
    one = compare(lambda: None, lambda: time.sleep(0.001), repeats=1, command="one")
    record("P4", one, path)
    record("P6", one, path)
    record("P4", one, path)
    assert set(json.loads(path.read_text())) == {"P4", "P6"}
    assert [item.name for item in path.parent.iterdir()] == ["benchmarks.json"]
