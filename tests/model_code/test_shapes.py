"""Compiled shapes: what fits where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_code.shapes import ShapeError, StaticShapes, parse_sizes


@given(sizes=st.sets(st.integers(1, 100), min_size=1), wanted=st.integers(-2, 110))
def test_the_smallest_that_holds(sizes: set[int], wanted: int) -> None:
    shapes = StaticShapes(batch_sizes=tuple(sorted(sizes)), lengths=tuple(sorted(sizes)))
    enough = [size for size in sizes if size >= wanted]
    if wanted < 1 or not enough:
        with pytest.raises(ShapeError, match=f"{wanted} rows fit no compiled shape"):
            shapes.batch_for(wanted)
        with pytest.raises(ShapeError, match=f"{wanted} tokens fit no compiled shape"):
            shapes.length_for(wanted)
    else:
        assert shapes.batch_for(wanted) == shapes.length_for(wanted) == min(enough)


def test_only_exact_shapes_pass() -> None:
    shapes = StaticShapes(batch_sizes=(1, 4), lengths=(8, 16))
    assert list(shapes) == [(1, 8), (4, 8), (1, 16), (4, 16)]
    for shape in shapes:
        shapes.check(shape)
    for wrong in [(2, 8), (4, 9), (4,), (4, 8, 1), ()]:
        with pytest.raises(ShapeError, match="is not compiled"):
            shapes.check(wrong)


@pytest.mark.parametrize("sizes", [(), (0,), (4, 4), (4, 1)])
def test_senseless_sizes(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="rising whole numbers"):
        StaticShapes(batch_sizes=sizes, lengths=(1,))


def test_sizes_as_text() -> None:
    assert parse_sizes("16,1,4,4") == (1, 4, 16)
    for text in ("", "1,", "a", "0,1", "1;2"):
        with pytest.raises(ShapeError):
            parse_sizes(text)
