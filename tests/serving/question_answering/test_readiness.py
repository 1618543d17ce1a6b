"""A server whose port opens only when its models have answered, for proxies that know it by its port."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from tests.serving.question_answering.qa_server import serve

STARTUP_FAILURE = 3  # uvicorn's exit status


def test_the_port_opens_when_the_models_answer(folders: list[Path]) -> None:
    """The first answer of all is a ready one."""
    with serve(MODEL_SOURCE=str(folders[0]), READY_TIMEOUT_SECONDS="90", wait=False) as server:
        statuses: list[int] = []
        deadline = time.monotonic() + 90
        while not statuses:
            assert time.monotonic() < deadline and server.child.poll() is None
            try:
                statuses.append(server.ask("GET", "/readyz").status)
            except OSError:
                time.sleep(0.005)
        assert statuses == [200]


def test_without_models_it_ends_and_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    with serve(MODEL_SOURCE=str(missing), READY_TIMEOUT_SECONDS="0.5", wait=False) as server:
        assert server.child.wait(60) == STARTUP_FAILURE
        text = (server.scratch / "log").read_text()
    assert f"NotReadyError: core 0 is not ready: SourceError: {missing}: no such folder" in text


def test_it_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    with serve(MODEL_SOURCE=str(tmp_path / "nothing"), READY_TIMEOUT_SECONDS="300", wait=False) as server:
        deadline = time.monotonic() + 60
        while not any(json.loads(line)["event"] == "models not changed" for line in _lines(server.scratch / "log")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(server.child.pid, signal.SIGTERM)
        assert server.child.wait(30) == STARTUP_FAILURE


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith("{")] if path.exists() else []
