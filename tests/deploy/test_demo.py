"""`make demo` as a newcomer runs it, and as an accident ends it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.deploy.trap import trap

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def start_demo(root: Path, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as stream:
        return subprocess.Popen(
            ["make", "--no-print-directory", "demo"],
            cwd=root,
            env=dict(os.environ) | environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(processes: set[psutil.Process]) -> list[str]:
    """Command lines of those that still run (a process id that was given away again does not count)."""
    found = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.NoSuchProcess:
            continue
    return found


def test_kill_at_random_moments_leaves_no_process(root: Path, tmp_path: Path) -> None:
    generator = random.Random(20)
    for attempt in range(10):
        log = tmp_path / f"demo-{attempt}.log"
        demo = start_demo(root, log)
        make = psutil.Process(demo.pid)
        seen: set[psutil.Process] = set()
        until = time.monotonic() + generator.uniform(1, 45)
        while time.monotonic() < until:
            seen.update(descendants(make))
            time.sleep(0.05)
        assert demo.poll() is None, log.read_text(errors="replace")[-3000:]
        seen.update(descendants(make))
        victim = next(
            process for process in descendants(make) if any("stand_in.demo" in part for part in process.cmdline())
        )
        victim.send_signal(signal.SIGKILL)
        demo.wait(timeout=30)
        deadline = time.monotonic() + 20
        while alive(seen) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert alive(seen) == [], f"attempt {attempt}"


def test_the_demo_works_and_touches_nothing_outside(root: Path, tmp_path: Path) -> None:
    """Also the proof that the killed runs before it left nothing that the next run trips over."""
    report = root / "build" / "demo-report.json"
    report.unlink(missing_ok=True)
    log = tmp_path / "demo.log"
    with trap() as made:
        demo = start_demo(root, log, **made.environment(tmp_path))
        status = demo.wait(timeout=900)
        printed = log.read_text(errors="replace")
        print(printed)
        assert status == 0, printed[-3000:]
        assert made.calls == []
    document = json.loads(report.read_text())
    sentiment = document["workloads"]["sentiment"]
    assert document["leftovers"] == []
    assert sentiment["metrics"]["held_out_accuracy"] >= 0.85
    assert sentiment["metrics"]["reviews_right"] >= 22
    assert "TorchServe" in sentiment["served_by"]


def test_a_second_demo_is_refused_while_one_runs(root: Path, tmp_path: Path) -> None:
    first = start_demo(root, tmp_path / "first.log")
    try:
        lock = root / "build" / "demo.lock"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and f"{lock.read_text() if lock.exists() else ''}".strip() in ("", "0"):
            time.sleep(0.2)
        time.sleep(3)
        second = start_demo(root, tmp_path / "second.log")
        assert second.wait(timeout=60) != 0
        assert "already running" in (tmp_path / "second.log").read_text()
    finally:
        os.killpg(first.pid, signal.SIGTERM)
        first.wait(timeout=60)
