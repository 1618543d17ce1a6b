"""What question answering accepts and answers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MAX_QUESTION_CHARACTERS = 512
MAX_CONTEXT_CHARACTERS = 100_000


class Question(BaseModel):
    """A question about a context."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={
        "examples": [{"question": "Where does the river rise?", "context": "The river rises in the northern hills."}],
    })  # fmt: skip

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS)
    context: str = Field(min_length=1, max_length=MAX_CONTEXT_CHARACTERS)
    model: str | None = Field(default=None, max_length=64, description="Name of a model; default: one by weight")


class Span(BaseModel):
    """An answer: `text` is context[start:end], in Unicode characters; empty when there is no answer."""

    text: str
    score: float = Field(ge=0, le=1, description="Probability of this answer, or of there being none")
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    has_answer: bool
