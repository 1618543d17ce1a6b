"""The stand-in's server with one more serving program: a small HTTP server for images of `fake-serving`.

Started as a script by the fixtures; its arguments are those of `python -m stand_in.server`.
"""

from __future__ import annotations

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PROBE = b"probe"


class Handler(BaseHTTPRequestHandler):
    """Answers everything with 200."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def serve_model(port: int, mode: str) -> None:
    """What the program of `fake-serving` does."""
    if mode == "broken":
        sys.exit("this model cannot be loaded")
    if mode == "slow":
        time.sleep(60)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever).start()


def main() -> int:
    """Serve a model (`served.py model PORT MODE`), or the stand-in."""
    if sys.argv[1] == "model":
        serve_model(int(sys.argv[2]), sys.argv[3])
        return 0
    # Loaded here only: the model server starts in a moment without them.
    from stand_in import server
    from stand_in.executor import direct, endpoint_servers
    from stand_in.executor.processes import spawn
    from stand_in.executor.servers import Container, ModelServer, free_ports
    from stand_in.executor.site import Site

    def start(site: Site, *, region: str, endpoint: str, container: Container) -> ModelServer:
        port = free_ports(1)[0]
        command = [sys.executable, __file__, "model", str(port), container.environment.get("MODE", "")]
        child = spawn(command, env={}, cwd=Path.cwd(), log=site.log_path(f"endpoint-{endpoint}"))
        return ModelServer(child=child, program="Fake", version="1", port=port, container=container)

    line = direct.DirectServer(program="Fake", repositories=("fake-serving",), probe=PROBE)
    vars(direct)["SERVERS"] = (line, *direct.SERVERS)
    endpoint_servers.PROGRAMS["Fake"] = endpoint_servers.Program(start=start)
    return server.main()


if __name__ == "__main__":
    sys.exit(main())
