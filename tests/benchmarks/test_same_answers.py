"""What the comparison with transformers' own pipeline counts."""

from __future__ import annotations

import pytest

from benchmarks.same_answers import difference


def test_a_difference_is_seen() -> None:
    found = difference([[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.7, 0.3]])
    assert (found.texts, found.equal) == (2, 1)
    assert found.score == pytest.approx(0.3)
    assert found.margin == pytest.approx(0.4)
