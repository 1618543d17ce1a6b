"""What every request passes: its id, the token, the size limit, and one line in the log. Plain ASGI."""

from __future__ import annotations

import hmac
import json
import random
import re
import time
import traceback
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException

from model_code.serving.log import log
from model_code.serving.service import Service

REQUEST_ID = re.compile(r"[A-Za-z0-9._:/=+-]{1,128}")
HEALTH = frozenset({"/healthz", "/readyz", "/ping"})  # load balancers bring no token


class Gate:
    """Around the whole application."""

    def __init__(self, app: Any, *, service: Service) -> None:
        self._app = app
        self._service = service
        self._token = service.settings.token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else f"{random.getrandbits(128):032x}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0

        async def answer(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id.encode()))
                if self._service.draining:  # the next request goes to another server
                    MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        try:
            refused = self._refused(scope, headers)
            if refused is None:
                await self._app(scope, self._limited(receive), answer)
            else:
                status_code, sentence, more = refused
                if not await _read_to_the_end(receive, self._service.settings.max_body_bytes):
                    more = {**more, "Connection": "close"}
                await _error(answer, request_id, status_code, sentence, more)
        except Exception as error:  # a defect of ours: the caller gets no trace of it, the log does
            log("error", request_id=request_id, error=repr(error), trace=traceback.format_exc())
            if not status:
                await _error(answer, request_id, 500, "Something failed in the server; the log has the reason.", {})
        finally:
            route = scope.get("route")
            self._service.metrics.response(getattr(route, "path", "none"), status)
            if scope["path"] not in HEALTH or status >= 400:
                log(
                    "request", request_id=request_id, method=scope["method"], path=scope["path"][:200], status=status,
                    ms=round((time.monotonic() - began) * 1e3, 2), client=(scope.get("client") or ("",))[0],
                    **state.get("log", {}),
                )  # fmt: skip

    def _refused(self, scope: Any, headers: Headers) -> tuple[int, str, dict[str, str]] | None:
        if self._token and scope["path"] not in HEALTH:
            kind, _, token = headers.get("authorization", "").partition(" ")
            brought = token.strip().encode("latin-1", "replace")
            if kind.lower() != "bearer" or not hmac.compare_digest(brought, self._token):
                return 401, "Send the header Authorization: Bearer <token>.", {"WWW-Authenticate": "Bearer"}
        length = headers.get("content-length", "0")
        most = self._service.settings.max_body_bytes
        if not length.isdigit() or int(length) > most:
            return 413, f"The body has {length[:20]} bytes; at most {most} are allowed.", {}
        return None

    def _limited(self, receive: Any) -> Any:
        """`receive` for bodies of unannounced length."""
        seen, most = 0, self._service.settings.max_body_bytes

        async def limited() -> Any:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                whole = not message.get("more_body") or await _read_to_the_end(receive, most)
                headers = None if whole else {"Connection": "close"}
                raise HTTPException(413, f"The body has more than {most} bytes.", headers)
            return message

        return limited


async def _read_to_the_end(receive: Any, limit: int) -> bool:
    """Discard a body that is refused: a client that is still sending would see a broken pipe, not the answer.

    False when there is more than ten times `limit` of it.
    """
    left = 10 * limit
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if not message.get("more_body"):
            return True
    return False


async def _error(send: Any, request_id: str, status: int, sentence: str, headers: dict[str, str]) -> None:
    body = json.dumps({"error": sentence, "request_id": request_id}).encode()
    pairs = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    encoded = [(name.lower().encode(), value.encode()) for name, value in pairs.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
