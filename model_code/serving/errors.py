"""What the server refuses: one class, one JSON shape."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ServingError(Exception):
    """An answer other than 200: `status` is the HTTP status, str() one sentence for the caller."""

    def __init__(self, status: int, sentence: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers or {}


class ErrorAnswer(BaseModel):
    """The body of every error."""

    error: str = Field(description="one sentence")
    request_id: str = Field(description="the X-Request-Id of the request; the log has it, too")


def overloaded(waiting: int, limit: int) -> ServingError:
    """503: the queue is full; a client should come back in a second."""
    sentence = f"The queue is full ({waiting} rows of at most {limit}); try again."
    return ServingError(503, sentence, headers={"Retry-After": "1"})


def too_late() -> ServingError:
    """504."""
    return ServingError(504, "The answer was not ready within the request's time (X-Timeout-Ms, or the default).")
