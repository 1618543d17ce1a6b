"""Static shapes: an accelerator runs only the batch sizes and lengths that it was compiled for. Standard library."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise


class ShapeError(ValueError):
    """A size that no compiled shape holds, or a list of sizes that makes no sense."""


@dataclass(frozen=True, kw_only=True)
class StaticShapes:
    """Every pair of a batch size (rows) and a length (tokens a row); both rise strictly. Raises ShapeError."""

    batch_sizes: tuple[int, ...]
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        for name, sizes in (("batch sizes", self.batch_sizes), ("lengths", self.lengths)):
            if not sizes or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
                raise ShapeError(f"{name} {list(sizes)}: expected rising whole numbers from 1, such as 1,4,8")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(batch size, length), small to large."""
        return ((batch, length) for length in self.lengths for batch in self.batch_sizes)

    def batch_for(self, rows: int) -> int:
        """The smallest compiled batch size that holds `rows` rows. Raises ShapeError."""
        return _smallest(self.batch_sizes, rows, "rows")

    def length_for(self, tokens: int) -> int:
        """The smallest compiled length that holds `tokens` tokens. Raises ShapeError."""
        return _smallest(self.lengths, tokens, "tokens")

    def check(self, shape: Iterable[int]) -> None:
        """Raise ShapeError unless `shape` is exactly a compiled one."""
        given = tuple(shape)
        if len(given) != 2 or given[0] not in self.batch_sizes or given[1] not in self.lengths:
            raise ShapeError(
                f"shape {given} is not compiled; there are batch sizes {list(self.batch_sizes)} and lengths "
                f"{list(self.lengths)}"
            )


def parse_sizes(text: str) -> tuple[int, ...]:
    """Rising sizes from `1,4,8`. Raises ShapeError."""
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise ShapeError(f"{text!r}: expected whole numbers with commas between, such as 1,4,8") from None
    return StaticShapes(batch_sizes=tuple(sizes), lengths=(1,)).batch_sizes


def _smallest(sizes: tuple[int, ...], wanted: int, what: str) -> int:
    place = bisect_left(sizes, wanted)
    if wanted < 1 or place == len(sizes):
        raise ShapeError(f"{wanted} {what} fit no compiled shape; there is room for 1 to {sizes[-1]}")
    return sizes[place]
