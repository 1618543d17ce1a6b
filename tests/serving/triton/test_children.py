"""Triton and the processes of its models end with whoever started them, even when that one is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from stand_in.executor import triton

ROOT = Path(__file__).parents[3]
PARENT = """
import sys, time
from pathlib import Path
from stand_in.executor import triton
venv, work, model = map(Path, sys.argv[1:])
server = triton.start(venv=venv, scratch=work / "scratch", log=work / "log")
server.wait_until_ready()
assert server.load("model", model, target="model.tar.gz").status == 200
print(server.child.pid, flush=True)
time.sleep(300)
"""


def test_nothing_outlives_a_killed_parent(endpoint: Any, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    command = [sys.executable, "-c", PARENT, str(triton.environment_folder(ROOT)), str(tmp_path)]
    model = endpoint.unpacked("enc-0.tar.gz")
    with subprocess.Popen([*command, str(model)], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        try:
            assert parent.stdout is not None
            launcher = psutil.Process(int(parent.stdout.readline()))
            tree = [launcher, *launcher.children(recursive=True)]
            assert len(tree) >= 3, "the launcher, the server and the model's own process"
        finally:
            parent.kill()
    deadline = time.monotonic() + 20
    while left := [one for one in tree if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
