"""Which waiting rows run next, and in which compiled batch size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from model_code.shapes import StaticShapes

Costs = Mapping["tuple[int, int]", float]


class Waiting(Protocol):
    """A row in the queue."""

    @property
    def model(self) -> object:
        """The model that it is for."""
        ...

    @property
    def length(self) -> int:
        """The compiled length that holds it."""
        ...


T = TypeVar("T", bound=Waiting)


def choose(waiting: Iterable[T], shapes: StaticShapes, costs: Costs) -> list[T]:
    """Rows of the next batch, oldest first; `costs` has the seconds of each (batch size, length).

    The oldest row decides model and length. The batch size is the one with most rows per second: five rows are better
    run as four and one where time grows with the size, and as eight where it hardly does. Places that would be padding
    take shorter rows along.
    """
    rows = list(waiting)
    oldest = rows[0]
    same = [row for row in rows if row.model is oldest.model and row.length == oldest.length]

    def rate(batch: int) -> tuple[float, int]:
        served = min(batch, len(same))
        return served / costs[batch, oldest.length], served

    batch = max(shapes.batch_sizes, key=rate)
    taken = same[:batch]
    if len(taken) < batch:
        shorter = (row for row in rows if row.model is oldest.model and row.length < oldest.length)
        taken += [row for _, row in zip(range(batch - len(taken)), shorter)]  # noqa: B905 - the shorter one ends it
    return taken
