"""A small HTTP balancer on loopback: it stands for the load balancer, and for nginx where there is none."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS = 90.0
"""Longer than a server may take for a request."""
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "date", "server"}
OF_A_CORE = re.compile(r"/cores/(\d+)(/.*)|(/predictions_neuron_core_(\d+)/.*)")


@dataclass(frozen=True)
class Target:
    """Where a request goes, and as which path."""

    port: int
    path: str


Route = Callable[[str], Sequence[Target]]


def cores_route(ports: Sequence[int]) -> Route:
    """The paths of a host's nginx: each core by its prefix, all others at the next core in turn."""
    turn = 0

    def route(path: str) -> Sequence[Target]:
        nonlocal turn
        found = OF_A_CORE.fullmatch(path)
        if found:
            core = int(found[1] or found[4])
            return [Target(ports[core], found[2] or found[3])] if core < len(ports) else ()
        turn += 1
        return [Target(ports[(turn + offset) % len(ports)], path) for offset in range(len(ports))]

    return route


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class Balancer:
    """Listens on a free port until it is closed; `route` says for every request which targets to try, in order.

    As with nginx a request goes on to the next target only when nothing of it was sent.
    """

    def __init__(self, route: Route, *, none: tuple[int, str]) -> None:
        """Open the port.

        :param none: status and sentence when there is no target
        """
        self._route = route
        self._none = none
        self._busy: Counter[int] = Counter()
        self._changed = threading.Condition()
        balancer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet for headers and body
            disable_nagle_algorithm = True

            def answer(self) -> None:
                balancer._answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="balancer", daemon=True).start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def drained(self, port: int, *, seconds: float) -> None:
        """Wait until no request is at the target any more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy[port], seconds)

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        failure = self._none
        for target in self._route(request.path):
            with self._changed:
                self._busy[target.port] += 1
            connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=SECONDS)
            try:
                try:
                    connection.connect()
                except OSError:
                    failure = (502, "no server answers")
                    continue
                self._forward(request, connection, target.path, body)
                return
            except (OSError, http.client.HTTPException):
                failure = (502, "the server ended during the request")
                break
            finally:
                connection.close()
                with self._changed:
                    self._busy[target.port] -= 1
                    self._changed.notify_all()
        text = json.dumps({"error": failure[1]}).encode()
        _send(request, failure[0], [("Content-Type", "application/json")], text)

    @staticmethod
    def _forward(
        request: BaseHTTPRequestHandler, connection: http.client.HTTPConnection, path: str, body: bytes
    ) -> None:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        connection.request(request.command, path, body or None, headers)
        response = connection.getresponse()
        content = response.read()
        kept = [(name, value) for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP]
        _send(request, response.status, [pair for pair in kept if pair[0].lower() != "content-length"], content)


def _send(request: BaseHTTPRequestHandler, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
    request.send_response(status)
    for name, value in (*headers, ("Content-Length", str(len(body)))):
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
