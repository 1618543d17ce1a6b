"""The host's nginx as a process, in front of servers that do as they are told."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stand_in.executor.processes import Child, spawn
from stand_in.executor.servers import free_ports

REPO_ROOT = Path(__file__).resolve().parents[2]
CONFIGURE = REPO_ROOT / "hosts/inferentia/nginx_config.py"


def program() -> str:
    """nginx; the test is skipped where there is none."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("nginx is not installed")
    return found


def configuration(*arguments: str) -> str:
    """What nginx_config.py prints."""
    command = [sys.executable, str(CONFIGURE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


@dataclass
class FakeCore:
    """A server of one core; `handle` answers (status, body), or raises ConnectionAbortedError to hang up."""

    core: int
    port: int
    handle: Callable[[FakeCore, str, str, bytes], tuple[int, bytes]]
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


def echo(core: FakeCore, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    """Who answered what."""
    return 200, json.dumps({"core": core.core, "path": path, "bytes": len(body)}).encode()


@contextlib.contextmanager
def fake_core(core: int, *, port: int = 0, handle: Callable[..., tuple[int, bytes]] = echo) -> Iterator[FakeCore]:
    """Run one on a loopback port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.seen.append((self.command, self.path, headers))
            try:
                status, text = fake.handle(fake, self.command, self.path, body)
            except ConnectionAbortedError:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    fake = FakeCore(core=core, port=server.server_address[1], handle=handle)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Proxy:
    """A running nginx."""

    port: int
    child: Child

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request on a connection of its own; header names are given with underscores."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            known = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, known, response.read())


@contextlib.contextmanager
def nginx(folder: Path, ports: list[int], *arguments: str) -> Iterator[Proxy]:
    """nginx with the host's own configuration, on a free loopback port, in front of `ports`."""
    binary = program()
    state = folder / "nginx"
    state.mkdir()
    (port,) = free_ports(1)
    text = configuration(
        "--ports", *map(str, ports), "--listen", f"127.0.0.1:{port}", "--state", str(state), *arguments
    )
    # As root it would want to be somebody else, and could not read the test's folders.
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(user + text)
    command = [binary, "-e", "stderr", "-c", str(folder / "nginx.conf")]
    child = spawn(command, env={"PATH": os.environ["PATH"]}, cwd=folder, log=folder / "nginx.log")
    proxy = Proxy(port, child)
    try:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):
                if proxy.ask("GET", "/healthz").status == 200:
                    break
            assert time.monotonic() < deadline and child.poll() is None, (folder / "nginx.log").read_text()
            time.sleep(0.05)
        yield proxy
    finally:
        child.stop()
