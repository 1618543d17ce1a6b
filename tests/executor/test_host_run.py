"""An instance of images mode is its user data on a host below a folder, and nothing of it stays but its log."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from stand_in.executor.container_server import addresses
from stand_in.executor.host_run import HostRun
from tests.executor.conftest import REGION, World, eventually

INSTANCE = f"i-{'0123' * 30}"
"""So long that its root is deeper than the address of a Unix socket may be (108 bytes)."""
UNIT = """[Unit]
Description=a job
[Service]
Type=oneshot
ExecStart=/bin/bash -c "{command}"
"""
USER_DATA = """#!/bin/bash
mkdir -p "$TORCHLIFT_ROOT/etc/systemd/system"
cat >"$TORCHLIFT_ROOT/etc/systemd/system/torchlift-job.service" <<'END'
{unit}
END
{more}
systemctl enable --now --no-block torchlift-job.service
"""


@contextmanager
def host(world: World, user_data: str, **machine: str) -> Iterator[tuple[HostRun, threading.Thread]]:
    """A host that lives in a thread, and what `world.job("work")` tells of it."""
    run = HostRun(
        site=world.executor.site,
        region=REGION,
        instance_id=INSTANCE,
        environment={"TORCHLIFT_JOB": "work", "TORCHLIFT_HASH": "0123456789abcdef"},
        user_data=user_data,
        machine={"PATH": os.environ["PATH"], **machine},
        remove_containers=lambda: None,
    )
    thread = threading.Thread(target=run.live)
    thread.start()
    try:
        yield run, thread
    finally:
        run.stop()
        thread.join(20)
    assert not thread.is_alive()


def folder(world: World) -> Path:
    return world.executor.site.state_dir / "hosts" / INSTANCE


def log_of(world: World) -> str:
    path = Path(world.job("work")["log"])
    return path.read_text() if path.exists() else ""


def with_unit(command: str, more: str = "") -> str:
    return USER_DATA.format(unit=UNIT.format(command=command), more=more)


@pytest.mark.parametrize(
    ("said", "state", "reason"),
    [
        ("torchlift: SUCCESS: s3://weights/", "succeeded", ""),
        ("torchlift: FAILURE: no labels", "failed", "no labels"),
        ("epoch 1", "stopped", "the instance was terminated"),
    ],
)
def test_the_end_is_told_by_the_job_itself(world: World, said: str, state: str, reason: str) -> None:
    with host(world, with_unit(f"echo '{said}'; exec sleep 101")) as (run, _):
        eventually(lambda: said in log_of(world))
        assert world.job("work")["state"] == "running" and world.job("work")["mode"] == "images"
        (process,) = [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "101"]]
        run.stop()
        assert not process.is_running()
    assert (world.job("work")["state"], world.job("work")["reason"]) == (state, reason)
    assert not folder(world).exists() and world.executor.state()["processes"] == []


def test_user_data_that_fails_fails_the_job_with_what_it_said(world: World) -> None:
    with host(world, "#!/bin/bash\necho broken >&2\nexit 3\n") as (_, thread):
        thread.join(20)
        assert world.job("work")["state"] == "failed"
        assert "status 3" in world.job("work")["reason"] and "broken" in world.job("work")["reason"]


def test_there_is_no_metadata_service_and_the_disk_is_as_asked_for(world: World) -> None:
    more = 'curl -s http://169.254.169.254/latest/api/token || echo "curl: $?"\ndf --output=size -BG / | tail -n 1'
    with host(world, with_unit("echo begun", more), TORCHLIFT_ROOT_GIB="321"):
        eventually(lambda: "begun" in log_of(world))
        assert log_of(world).splitlines()[:2] == ["curl: 7", "321G"]


def test_a_served_container_has_its_ports_on_loopback_only() -> None:
    variables = addresses([1, 2, 3, 4, 5])
    assert {value.rpartition(":")[0] for value in variables.values() if ":" in value} == {"http://127.0.0.1"}
    assert sorted({value.rpartition(":")[2] for value in variables.values()}) == ["1", "2", "3", "4", "5"]
