"""What a workload brings to be served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from model_code.shapes import StaticShapes


class Row(Protocol):
    """One row of a batch."""

    @property
    def length(self) -> int:
        """Tokens."""
        ...


class Model(Protocol):
    """A model in memory. `run` and `check` are called from the inference thread only."""

    shapes: StaticShapes
    file_bytes: int

    def run(self, rows: Sequence[Any]) -> list[Any]:
        """One result for each row; pads to the smallest compiled shape that holds them."""
        ...

    def check(self, *, batch: int, length: int) -> None:
        """Run one compiled shape once; raise when it computes something wrong."""
        ...

    def describe(self) -> dict[str, Any]:
        """What /models says about it, as JSON."""
        ...


class Workload(Protocol):
    """A kind of model with its requests and answers; knows nothing of HTTP, threads and queues."""

    name: str
    Input: type[BaseModel]  # one question; may have a field `model`
    Output: type[BaseModel]

    def load(self, folder: Path) -> Any:
        """The Model in a folder."""
        ...

    def size(self, given: Any) -> int:
        """Characters of an input: long ones are prepared off the event loop."""
        ...

    def rows(self, model: Any, given: Any, *, max_rows: int) -> list[Any]:
        """The rows of an input. Raises ValueError with a sentence for the caller."""
        ...

    def output(self, model: Any, given: Any, rows: Sequence[Any], results: Sequence[Any]) -> Any:
        """The Output for an input."""
        ...

    def add_routes(self, app: Any, service: Any) -> None:
        """Add HTTP paths that only this workload has."""
        ...


def find(name: str) -> Workload:
    """The workload of a name; imported only now. Raises ValueError."""
    if name == "question-answering":
        from model_code.question_answering.workload import QuestionAnswering

        return QuestionAnswering()
    raise ValueError(f"TORCHLIFT_WORKLOAD={name!r}: there is question-answering")
