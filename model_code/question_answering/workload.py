"""Question answering as a workload of model_code.serving."""

# No `from __future__ import annotations`: FastAPI reads the signatures of the inner functions.

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from model_code.question_answering.answers import Logits, choose
from model_code.question_answering.compiled import CompiledModel
from model_code.question_answering.schemas import (
    MAX_CONTEXT_CHARACTERS,
    MAX_QUESTION_CHARACTERS,
    Question,
    Span,
)
from model_code.question_answering.windows import Window, cut
from model_code.serving.app import REFUSALS, note, timeout_header
from model_code.serving.errors import ServingError
from model_code.serving.service import Service

# What a caller of the GET path asks who asks nothing.
QUESTION = "When was the bridge built?"
CONTEXT = "The old bridge over the river was built in 1843 and carries a footpath today."


class Detail(BaseModel):
    """The answer of the GET path."""

    detail: str


class Loaded(CompiledModel):
    """A compiled model that the server can check."""

    def check(self, *, batch: int, length: int) -> None:
        """Compare with the eager model's logits in the folder. Raises RuntimeError."""
        difference = self.difference(batch=batch, length=length)
        self.largest_difference = max(getattr(self, "largest_difference", 0.0), difference)
        if not difference <= self.manifest.tolerance:
            raise RuntimeError(
                f"batch {batch}, length {length}: a logit differs by {difference:.3g} from the model that was "
                f"compiled; at most {self.manifest.tolerance:g} is allowed"
            )

    def describe(self) -> dict[str, Any]:
        """What was compiled, and how it compares here."""
        manifest = self.manifest
        return {
            "compiled_from": manifest.source,
            "backend": manifest.backend,
            "dtype": manifest.dtype,
            "neuron_sdk": manifest.neuron_sdk,
            "max_abs_difference": self.largest_difference,
        }


class QuestionAnswering:
    """Extractive: the answer is a span of the context."""

    name = "question-answering"
    Input: type[BaseModel] = Question
    Output: type[BaseModel] = Span

    def load(self, folder: Path) -> Loaded:
        """A folder that trace.py wrote. Raises ManifestError or BackendError."""
        return Loaded(folder)

    def size(self, given: Question) -> int:
        """Characters."""
        return len(given.question) + len(given.context)

    def rows(self, model: Loaded, given: Question, *, max_rows: int) -> list[Window]:
        """Overlapping windows. Raises InputError."""
        return cut(
            model.tokenizer,
            given.question,
            given.context,
            length=model.shapes.lengths[-1],
            stride=model.manifest.answering.stride,
            max_windows=max_rows,
        )

    def output(
        self, model: Loaded, given: Question, rows: Sequence[Window], results: Sequence[tuple[Logits, Logits]]
    ) -> Span:
        """The best span over all windows."""
        answering = model.manifest.answering
        found = choose(
            rows, results, max_answer_tokens=answering.max_answer_tokens, null_threshold=answering.null_threshold
        )
        text = given.context[found.start : found.end]
        return Span.model_construct(
            text=text, score=found.score, start=found.start, end=found.end, has_answer=found.has_answer
        )

    def add_routes(self, app: FastAPI, service: Service) -> None:
        """The path that callers of the FastAPI-on-Inferentia sample know."""
        own = service.settings.core
        timeout = timeout_header(service)

        @app.get("/predictions_neuron_core_{core}/{model}", response_model=Detail, responses=REFUSALS, tags=["predict"])
        async def predictions(
            request: Request,
            core: str,
            model: str,
            seq_0: Annotated[str, Query(min_length=1, max_length=MAX_QUESTION_CHARACTERS)] = QUESTION,
            seq_1: Annotated[str, Query(min_length=1, max_length=MAX_CONTEXT_CHARACTERS)] = CONTEXT,
            x_timeout_ms: timeout = service.settings.timeout_ms,  # type: ignore[valid-type]
        ) -> Response:
            """Answer the question `seq_0` about the context `seq_1`."""
            if core != str(own):
                raise ServingError(404, f"This server has core {own}, not {core[:20]!a}.")
            given = Question.model_construct(question=seq_0, context=seq_1, model=model)
            found = await service.answer(given, name=model, deadline=service.deadline(x_timeout_ms))
            note(request, [found])
            return JSONResponse({"detail": found.output.text})
