"""The HTTP application: the paths that every workload has."""

# No `from __future__ import annotations`: the workload's own models appear in the signatures below.

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, create_model
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from model_code.serving.errors import ErrorAnswer, ServingError
from model_code.serving.middleware import Gate
from model_code.serving.route import HEADER, PredictRoute
from model_code.serving.service import Answered, Service

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The body is not JSON"},
    401: {"model": ErrorAnswer, "description": "The token is missing or wrong"},
    404: {"model": ErrorAnswer, "description": "There is no such model or core here"},
    413: {"model": ErrorAnswer, "description": "The body is too large"},
    422: {"model": ErrorAnswer, "description": "A field is missing, unknown, of the wrong kind, or too long"},
    500: {"model": ErrorAnswer, "description": "The model failed"},
    503: {"model": ErrorAnswer, "description": "The queue is full; Retry-After says when to try again"},
    504: {"model": ErrorAnswer, "description": "The time of the request is over"},
}


class Timings(BaseModel):
    """Milliseconds of an input: prepared, waiting for the core, until its last batch was done, and all."""

    prepare: float
    queue: float
    inference: float
    total: float


class Status(BaseModel):
    """Of the server."""

    status: str


def create(service: Service) -> FastAPI:
    """The application around a service."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title=f"Torchlift {service.workload.name}",
        version="1",
        lifespan=lifespan,
        dependencies=[Depends(HTTPBearer(auto_error=False))] if service.settings.token else [],
    )
    app.add_middleware(Gate, service=service)
    app.exception_handler(ServingError)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http)
    _add_predict(app, service)  # first, for paths are tried in order
    _add_operations(app, service)
    service.workload.add_routes(app, service)
    return app


def timeout_header(service: Service) -> Any:
    """The annotation of a parameter that takes X-Timeout-Ms."""
    most = service.settings.max_timeout_ms
    return Annotated[int, Header(alias=HEADER, ge=1, le=most, description="Answer 504 after so many milliseconds")]


def note(request: Request, answered: list[Answered]) -> None:
    """Add to the request's line in the log what was done for it."""
    request.state.log = {
        "model": answered[0].model,
        "rows": sum(one.rows for one in answered),
        "queue_ms": round(max(one.seconds[1] for one in answered) * 1e3, 2),
        "inference_ms": round(max(one.seconds[2] for one in answered) * 1e3, 2),
    }


def _add_operations(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", response_model=Status, responses={503: {"model": ErrorAnswer}}, tags=["operations"])
    async def healthz() -> Any:
        """200 while the process works: it answers, and its inference thread runs. Otherwise it should be replaced."""
        if reason := service.core.sick():
            raise ServingError(503, reason)
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", response_model=Status, responses={503: {"model": ErrorAnswer}}, tags=["operations"])
    @app.get("/ping", response_model=Status, responses={503: {"model": ErrorAnswer}}, tags=["sagemaker"])
    async def readyz() -> Any:
        """200 when requests should come here: every model has answered, and the server is not shutting down."""
        if reason := service.not_ready():
            raise ServingError(503, reason)
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", response_class=PlainTextResponse, tags=["operations"])
    async def metrics() -> Response:
        """Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/models", tags=["operations"])
    async def models() -> dict[str, Any]:
        """The models of this core, and why the list of models is not followed, when it is not."""
        return {
            "core": service.settings.core,
            "models": [loaded.describe() for loaded in service.registry.routes.values()],
            "problem": service.registry.problem,
            "process_bytes": _resident_bytes(),
        }


def _add_predict(app: FastAPI, service: Service) -> None:
    one = service.workload.Input
    many = create_model(
        "Inputs",
        __config__=ConfigDict(extra="forbid"),
        inputs=(list[one], Field(min_length=1, max_length=service.settings.max_inputs)),  # type: ignore[valid-type]
    )
    # Which of the two it is shows in one field, so an error names what is wrong with that one only.
    given = Annotated[
        Annotated[one, Tag("one")] | Annotated[many, Tag("many")],  # type: ignore[valid-type]
        Discriminator(lambda body: "many" if "inputs" in _keys(body) else "one"),
        Body(),
    ]
    answer = create_model(
        "Answer", __base__=service.workload.Output, model=(str, ...), core=(int, ...), timings=(Timings, ...)
    )
    answers = create_model("Answers", answers=(list[answer], ...))  # type: ignore[valid-type]
    timeout = timeout_header(service)

    def full(answered: Answered) -> dict[str, Any]:
        # Our own values need no validation, which would cost as much as the rest of the answer.
        prepare, queue, inference, total = (round(value * 1e3, 3) for value in answered.seconds)
        timings = {"prepare": prepare, "queue": queue, "inference": inference, "total": total}
        return {**dict(answered.output), "model": answered.model, "core": service.settings.core, "timings": timings}

    async def predict(request: Request, body: given, x_timeout_ms: timeout = service.settings.timeout_ms) -> Any:  # type: ignore[valid-type]
        """Answer one input, or many at once."""
        deadline = service.deadline(x_timeout_ms)
        if isinstance(body, many):
            found = await service.answer_all(body.inputs, deadline=deadline)  # type: ignore[attr-defined]
            note(request, found)
            content = {"answers": [full(item) for item in found]}
        else:
            item = await service.answer(body, name=body.model, deadline=deadline)  # type: ignore[attr-defined]
            note(request, [item])
            content = full(item)
        return Response(to_json(content, inf_nan_mode="null"), media_type="application/json")

    for path, tag in (("/predict", "predict"), ("/invocations", "sagemaker")):
        app.router.add_api_route(
            path, predict, methods=["POST"], route_class_override=PredictRoute, response_model=answer | answers,
            responses=REFUSALS, tags=[tag],
        )  # fmt: skip


def _keys(body: Any) -> Any:
    return body if isinstance(body, dict) else ()


def _resident_bytes() -> int:
    """Memory of this process, from Linux's /proc; 0 elsewhere."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - read at every call
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


async def _refused(request: Request, error: Any) -> Response:
    return _error(request, error.status, str(error), error.headers)


async def _http(request: Request, error: Any) -> Response:
    if error.status_code == 404 and error.detail == "Not Found":
        return _error(request, 404, "There is no such path; /docs lists them.", error.headers)
    return _error(request, error.status_code, str(error.detail), error.headers)


async def _invalid(request: Request, error: Any) -> Response:
    problems = []
    for problem in error.errors()[:5]:
        if problem["type"] == "json_invalid":
            return _error(request, 400, "The body is not valid JSON.", None)
        place = ".".join(str(part)[:40] for part in problem["loc"] if part not in ("one", "many"))
        problems.append(f"{place}: {problem['msg']}")
    return _error(request, 422, "; ".join(problems)[:1000], None)


def _error(request: Request, status: int, sentence: str, headers: Any) -> Response:
    answer = {"error": ascii(sentence)[1:-1] if not sentence.isascii() else sentence}
    return JSONResponse(answer | {"request_id": request.state.request_id}, status, headers)
