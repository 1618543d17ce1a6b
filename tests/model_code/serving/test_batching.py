"""Which rows make the next batch."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from model_code.serving.batching import choose
from model_code.shapes import StaticShapes

SHAPES = StaticShapes(batch_sizes=(1, 4, 8), lengths=(32, 64))
PROPORTIONAL = {(batch, length): float(batch * length) for batch, length in SHAPES}
FLAT = {(batch, length): 10.0 + 0.1 * batch for batch, length in SHAPES}


@dataclass(eq=False)
class Item:
    model: object
    length: int


def rows(*lengths: int, model: str = "a") -> list[Item]:
    return [Item(model, length) for length in lengths]


def test_size_follows_the_measured_times() -> None:
    five = rows(*[32] * 5)
    assert len(choose(five, SHAPES, PROPORTIONAL)) == 4  # padding to eight would cost three rows
    assert len(choose(five, SHAPES, FLAT)) == 5  # and here nearly nothing


def test_padding_takes_shorter_rows_along() -> None:
    waiting = rows(64, 32, 64, 64, 32)
    taken = choose(waiting, SHAPES, FLAT)
    assert taken == [waiting[0], waiting[2], waiting[3], waiting[1]]  # a batch of four holds them


def test_longer_rows_wait_for_their_own_batch() -> None:
    waiting = rows(32, 64, 32)
    assert choose(waiting, SHAPES, FLAT) == [waiting[0], waiting[2]]


@given(
    waiting=st.lists(st.builds(Item, st.sampled_from(["a", "b"]), st.sampled_from([32, 64])), min_size=1, max_size=40),
    flat=st.booleans(),
)
def test_the_oldest_row_always_runs_and_models_never_mix(waiting: list[Item], flat: bool) -> None:
    taken = choose(waiting, SHAPES, FLAT if flat else PROPORTIONAL)
    assert taken[0] is waiting[0]
    assert {row.model for row in taken} == {waiting[0].model}
    assert max(row.length for row in taken) == waiting[0].length
    assert len(set(map(id, taken))) == len(taken) <= 8
