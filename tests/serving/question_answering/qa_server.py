"""Our server as a process on loopback, and what clients of it do."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_code.question_answering.answers import Found, choose
from model_code.question_answering.compiled import CompiledModel
from model_code.question_answering.windows import cut
from stand_in.executor.processes import Child, spawn
from stand_in.executor.servers import free_ports

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running server; `ask` is safe in threads when each has a connection of its own."""

    port: int
    child: Child
    scratch: Path

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(
        self, method: str, path: str, body: Any = None, *, connection: http.client.HTTPConnection | None = None,
        **headers: str,
    ) -> Answer:  # fmt: skip
        """One request; header names are given with underscores; a body that is not bytes is sent as JSON."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            named.setdefault("Content-Type", "application/json")
        with contextlib.ExitStack() as stack:
            if connection is None:
                connection = stack.enter_context(contextlib.closing(self.connect()))
            connection.request(method, path, data, named)
            response = connection.getresponse()
            return Answer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )

    def predict(self, question: str, context: str, **given: Any) -> Answer:
        return self.ask("POST", "/predict", {"question": question, "context": context}, **given)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.scratch / "log").read_text().splitlines() if line.startswith("{")]

    def metric(self, name: str) -> float:
        """Sum of all series of a metric."""
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.partition("{")[0] == name)

    def terminate(self) -> None:
        os.kill(self.child.pid, signal.SIGTERM)


@contextlib.contextmanager
def serve(*, NEURON_RT_VISIBLE_CORES: str = "0", wait: bool = True, **settings: str) -> Iterator[Server]:
    """Start a server with TORCHLIFT_ settings; it ends with the block, or with this process."""
    import sys

    scratch = Path(tempfile.mkdtemp(prefix="qa-"))
    (port,) = free_ports(1)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "NEURON_RT_VISIBLE_CORES": NEURON_RT_VISIBLE_CORES,
        "TORCHLIFT_PORT": str(port),
        "TORCHLIFT_CACHE_DIR": str(scratch / "cache"),
        "TORCHLIFT_POLL_SECONDS": "0.1",
        "TORCHLIFT_TIMEOUT_MS": "60000",
        **{f"TORCHLIFT_{name}": value for name, value in settings.items() if not name.startswith("AWS_")},
        **{name: value for name, value in settings.items() if name.startswith("AWS_")},
    }
    child = spawn([sys.executable, "-m", "model_code.serving"], env=environment, cwd=scratch, log=scratch / "log")
    server = Server(port, child, scratch)
    try:
        if wait:
            wait_until_ready(server)
        yield server
    finally:
        child.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def wait_until_ready(server: Server, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.child.poll() is None:
        with contextlib.suppress(OSError):
            if server.ask("GET", "/readyz").status == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not get ready:\n{(server.scratch / 'log').read_text()[-3000:]}")


def alone(model: CompiledModel, question: str, context: str) -> Found:
    """The answer, each window run in a batch of its own."""
    answering = model.manifest.answering
    windows = cut(
        model.tokenizer, question, context, length=model.shapes.lengths[-1], stride=answering.stride, max_windows=64
    )
    return choose(
        windows, [model.run([window])[0] for window in windows],
        max_answer_tokens=answering.max_answer_tokens, null_threshold=answering.null_threshold,
    )  # fmt: skip
