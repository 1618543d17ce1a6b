"""Start the stand-in for AWS as a child process, talk to it, and end it with everything it started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stand_in.clients import Clients
from stand_in.environment import isolated_environment
from stand_in.executor.processes import Child, spawn
from stand_in.images.engine import remove_folder
from stand_in.images.readiness import state_folder


class StandInFailed(Exception):
    """The stand-in did not start; the message says why and names the log."""


class StandIn:
    """A running stand-in: its address, the environment for its clients, and clients in this process."""

    def __init__(self, *, base_url: str, region: str, state_dir: Path, root: Path) -> None:
        self.base_url = base_url
        self.region = region
        self.state_dir = state_dir
        home = state_dir / "home"
        home.mkdir(parents=True, exist_ok=True)
        self._clients = Clients(base_url)
        self.environment = isolated_environment(base_url=base_url, region=region, root=root, home=home) | {
            # The app is this checkout's, whichever one is installed. Jobs and servers get no such thing: they must
            # run what their bundles and archives bring.
            "PYTHONPATH": os.pathsep.join([str(root), str(root / "constructs")])
        }

    def client(self, service: str) -> Any:
        """A boto3 client for `service` that can only reach the stand-in; one per service, shared by threads."""
        return self._clients.get(service, self.region)

    def get(self, path: str) -> Any:
        """The JSON document at `path` of the stand-in's own pages, such as `/_torchlift/state`."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(self.base_url + path, timeout=120) as answer:
            return json.load(answer)


@contextmanager
def stand_in(
    *,
    region: str,
    state_dir: Path,
    root: Path,
    start_seconds: float = 60,
    program: Sequence[str] = ("-m", "stand_in.server"),
    mode: str = "direct",
) -> Iterator[StandIn]:
    """A fresh, empty stand-in for the length of the `with` block.

    `program` are Python's arguments: tests have one that adds serving programs of their own to the server.
    Raises StandInFailed when it does not answer within `start_seconds`.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    ready = state_dir / "ready.json"
    ready.unlink(missing_ok=True)
    log = state_dir / "logs" / "stand-in.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *program, "--port", "0"]
    command += ["--state-dir", str(state_dir), "--ready-file", str(ready), "--mode", mode]
    clean: Mapping[str, str] = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    child: Child = spawn(command, env=dict(clean), cwd=root, log=log)
    try:
        base_url = _wait_for_address(child, ready, log, start_seconds)
        yield StandIn(base_url=base_url, region=region, state_dir=state_dir, root=root)
    finally:
        child.stop()
        # Not by the server itself, which has seconds to end, and may be killed.
        remove_folder(state_folder(state_dir))
        shutil.rmtree(state_dir / "hosts", ignore_errors=True)


def _wait_for_address(child: Child, ready: Path, log: Path, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ready.exists():
            return str(json.loads(ready.read_text())["base_url"])
        if child.poll() is not None:
            break
        time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
    raise StandInFailed(f"the stand-in for AWS did not start within {seconds:.0f} s. Its log {log} ends with:\n{tail}")


def run(
    command: list[str], *, environment: Mapping[str, str], cwd: Path, log: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `command` to its end with its output in `log`; it and its children end with this process or at `timeout`.

    Returns the exit status and the whole output (stdout and stderr interleaved). Raises subprocess.TimeoutExpired.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = log.stat().st_size if log.exists() else 0
    child = spawn(command, env=dict(environment), cwd=cwd, log=log)
    try:
        status = child.wait(timeout)
    except subprocess.TimeoutExpired:
        child.stop()
        raise
    with log.open(errors="replace") as stream:
        stream.seek(started)
        return subprocess.CompletedProcess(command, status, stream.read(), "")
