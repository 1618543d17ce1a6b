"""The way from a request's bytes to the arguments of `/predict`, without FastAPI's own.

Its general solver of dependencies takes about as long as a small model does for a row (P1 of the benchmarks). The
signature stays FastAPI's, so the OpenAPI document does too.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine
from email.message import Message
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

HEADER = "X-Timeout-Ms"


class PredictRoute(APIRoute):
    """For an endpoint `(request, body, x_timeout_ms)`: a JSON body, and the header X-Timeout-Ms with a default."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request. Its errors are FastAPI's."""
        endpoint = self.endpoint
        hints = typing.get_type_hints(endpoint, include_extras=True)
        body, timeout = TypeAdapter(hints["body"]), TypeAdapter(hints["x_timeout_ms"])
        usual = inspect.signature(endpoint).parameters["x_timeout_ms"].default

        async def handle(request: Request) -> Response:
            brought = request.headers.get(HEADER)
            try:
                place: tuple[str, ...] = ("header", HEADER)
                milliseconds = usual if brought is None else timeout.validate_strings(brought)
                place = ("body",)
                given = body.validate_json(await _json(request))
            except ValidationError as error:
                found = error.errors(include_url=False)
                raise RequestValidationError([one | {"loc": (*place, *one["loc"])} for one in found]) from error
            return await endpoint(request, given, milliseconds)  # type: ignore[no-any-return]

        return handle


async def _json(request: Request) -> bytes:
    """The body. Raises RequestValidationError when there is none, or something else than JSON by its own account."""
    content = await request.body()
    kind = request.headers.get("content-type", "")
    if content and kind != "application/json" and not _is_json(kind):
        message = f"Send it as application/json, not as {kind[:40]!a}"
        raise RequestValidationError([{"type": "content_type", "loc": ("body",), "msg": message, "input": None}])
    if not content:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])
    return content


def _is_json(kind: str) -> bool:
    message = Message()
    message["content-type"] = kind
    subtype = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (subtype == "json" or subtype.endswith("+json"))
