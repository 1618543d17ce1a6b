"""A real TorchServe with the SageMaker toolkit around an unpacked model archive, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import psutil

from stand_in.executor.java import java_home
from stand_in.executor.processes import Child, spawn
from stand_in.executor.servers import free_ports

# The TorchServe environment that `make setup` builds beside the main one.
PYTHON = Path(__file__).parents[2] / ".venvs" / "torchserve" / "bin" / "python"
# Turns the toolkit to loopback and to private places; the demo starts its servers with it, too.
LAUNCHER = Path(__file__).parents[2] / "stand_in" / "executor" / "torchserve_launcher.py"
START_SECONDS = 180


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Message
    body: bytes


@dataclass(frozen=True)
class Server:
    """A running server: `url` without a path, `log` with everything it printed, `pid` of the launcher."""

    url: str
    log: Path
    pid: int

    def invoke(self, body: bytes, *, path: str = "/invocations", timeout: float = 60, **headers: str) -> Answer:
        """POST `body`; header names are given with underscores (`Content_Type`)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data=body, headers=named, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def processes(self) -> list[psutil.Process]:
        """The launcher and everything below it."""
        launcher = psutil.Process(self.pid)
        return [launcher, *launcher.children(recursive=True)]


@contextlib.contextmanager
def serve(model_dir: Path, **environment: str) -> Iterator[Server]:
    """Serve the unpacked archive in `model_dir`; ready means that an invocation was answered with 200."""
    python = PYTHON
    # A short path: the workers' Unix sockets lie in it, and their names may have 107 characters at most.
    scratch = Path(tempfile.mkdtemp(prefix="ts-"))
    (scratch / "base").mkdir()
    (scratch / "base" / "model").symlink_to(model_dir.resolve())
    ports = free_ports(5)
    env = {
        "PATH": os.pathsep.join([str(python.parent), str(java_home() / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(scratch),
        "SAGEMAKER_BASE_DIR": str(scratch / "base"),
        "SAGEMAKER_PROGRAM": "inference.py",
        "SAGEMAKER_REGION": "us-west-2",
        "SAGEMAKER_MODEL_SERVER_WORKERS": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCHLIFT_SCRATCH": str(scratch),
        "TORCHLIFT_PORTS": ",".join(map(str, ports)),
        **environment,
    }
    log = scratch / "server.log"
    # Ends with this process, however that ends.
    launcher = spawn([str(python), str(LAUNCHER)], env=env, cwd=scratch, log=log)
    server = Server(url=f"http://127.0.0.1:{ports[0]}", log=log, pid=launcher.pid)
    try:
        _wait_until_ready(server, launcher)
        yield server
    finally:
        launcher.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _wait_until_ready(server: Server, launcher: Child) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if launcher.poll() is not None:
            break
        # /ping answers 200 while every worker crashes: only an invocation proves anything.
        with contextlib.suppress(OSError):
            if server.invoke(b'{"inputs": "ready?"}', timeout=10, Content_Type="application/json").status == 200:
                return
        time.sleep(0.25)
    raise RuntimeError(f"the server did not get ready:\n{server.log.read_text(errors='replace')[-4000:]}")
