"""A model server behind an endpoint: what every serving program has in common."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stand_in.executor.processes import Child, tail

JSON = {"Content-Type": "application/json", "Accept": "application/json"}
INVOCATION_SECONDS = 60.0
"""SageMaker's own limit for a real-time invocation."""


class CannotServe(Exception):
    """A server could not even be started; the message says why."""


class NotReady(Exception):
    """The server did not answer an invocation in time; the message ends with its log's last lines."""


class Refused(Exception):
    """SageMaker refuses an invocation itself, so that no container is asked; `status` and `kind` are its error's."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "ValidationError") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, kw_only=True)
class Container:
    """What a variant and its SageMaker Model say about the container.

    :param model_data_url: a prefix when `multi_model`
    :param role: the ARN of the execution role, with which SageMaker fetches image and model data
    :param cached: false when a multi-model container is to load and unload a model for each invocation
    """

    model: str
    image: str
    model_data_url: str
    role: str
    environment: Mapping[str, str]
    variant: str = ""
    multi_model: bool = False
    cached: bool = True


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def request(port: int, method: str, path: str, body: bytes, headers: Mapping[str, str], *, seconds: float) -> Answer:
    """One request to 127.0.0.1. Raises OSError (TimeoutError after `seconds`) or http.client.HTTPException."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        response = connection.getresponse()
        return Answer(status=response.status, headers=dict(response.getheaders()), body=response.read())
    finally:
        connection.close()


class ModelServer:
    """A running program that answers `POST /invocations` on a port of 127.0.0.1."""

    def __init__(self, *, child: Child, program: str, version: str, port: int, container: Container) -> None:
        self.child = child
        self.program = program
        self.version = version
        self.port = port
        self.container = container

    @property
    def url(self) -> str:
        """Address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the program prints."""
        return self.child.log

    def post(self, body: bytes, headers: Mapping[str, str], *, seconds: float = INVOCATION_SECONDS) -> Answer:
        """One invocation. Raises OSError (TimeoutError after `seconds`) or http.client.HTTPException."""
        return request(self.port, "POST", "/invocations", body, headers, seconds=seconds)

    def wait_until_ready(
        self, probe: bytes, *, seconds: float, hopeless: tuple[str, int] | None, cancelled: threading.Event
    ) -> None:
        """Block until an invocation of `probe` (JSON) is answered with 200. Raises NotReady.

        :param hopeless: words in the log and how often they mean that waiting is in vain
        """
        deadline, last = time.monotonic() + seconds, "no answer"
        while time.monotonic() < deadline and not cancelled.is_set():
            with suppress(OSError, http.client.HTTPException):
                answer = self.post(probe, JSON, seconds=30)
                if answer.status == 200:
                    return
                last = f"{answer.status} {answer.body[:200].decode(errors='replace')}"
            if (status := self.child.poll()) is not None:
                raise self._not_ready(f"{self.program} ended with status {status}")
            if hopeless and self.log.read_text(errors="replace").count(hopeless[0]) >= hopeless[1]:
                raise self._not_ready(f"{self.program} cannot load the model")
            time.sleep(0.25)
        if cancelled.is_set():
            raise NotReady("cancelled")
        raise self._not_ready(f"{self.program} answered no invocation within {seconds:.0f} s ({last})")

    def _not_ready(self, what: str) -> NotReady:
        return NotReady(f"{what}. Its log {self.log} ends with: {tail(self.log, lines=12, characters=800)}")

    def stop(self) -> None:
        """End the program and all its processes."""
        with suppress(subprocess.TimeoutExpired):
            self.child.stop()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
