"""A small model server, `fake_server.py PORT MODE`: what it answers depends on the body and the mode."""

from __future__ import annotations

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT, MODE = int(sys.argv[1]), sys.argv[2]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = 200, b"%s %s %s" % (MODE.encode(), self.headers.get("Content-Type", "").encode(), body)
        if body == b"probe":
            # Not ready until the test says so.
            status = 200 if Path("ready").exists() else 503
        elif body == b"refuse":
            status, answer = 400, b'{"error": "no such input"}'
        elif body == b"break":
            status, answer = 500, b"out of luck"
        elif body == b"slow":
            time.sleep(1.5)
        self.send_response(status)
        self.send_header("Content-Type", "text/x-answer")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


if MODE == "broken":
    sys.exit("this model cannot be loaded")
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
