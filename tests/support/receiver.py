"""A loopback receiver of what jobs and handlers PUT: it answers like a presigned URL of S3."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """What arrived, in order.

    :param refuse_next: how many of the next requests are answered with 503
    """

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    content_types: list[str | None] = field(default_factory=list)
    refused: int = 0
    refuse_next: int = 0


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free loopback port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.refuse_next:
                receiver.refuse_next -= 1
                self.send_error(503)
                return
            if self.headers.get("Content-Type"):
                receiver.refused += 1
                self.send_error(403, "the Content-Type is part of the signature and must be empty")
                return
            receiver.content_types.append(self.headers.get("Content-Type"))
            receiver.bodies.append(json.loads(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # The query looks like a presigned URL's: the sender must not choke on it.
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/handle?X-Amz-Signature=a%2Fb&X-Amz-Expires=86399"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
