"""An instance of the fleet in images mode: what it says of its boot is known, and it is left when it is off."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from stand_in.executor.fleet_host_run import FleetHostRun
from stand_in.executor.health import HealthCheck
from stand_in.executor.modes import FleetLaunch
from stand_in.images.machine import Machine
from tests.executor.conftest import REGION, World, eventually
from tests.executor.test_host_run import USER_DATA

UNIT = """[Unit]
Description=a boot
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash -c "{command}"
"""
CHECK = HealthCheck(path="/readyz", interval_s=0.1, timeout_s=5, up=2, down=2)


@dataclass
class Shared:
    """In a machine's place: this machine's own network, and no engine."""

    port: int
    closed: bool = False

    @property
    def network(self) -> Shared:
        return self

    def publish(self, port: int) -> int:
        assert port == 8080
        return self.port

    def enter(self) -> list[str]:
        return []

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        return dict(base)

    def close(self) -> None:
        self.closed = True


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def nginx() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ready)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@contextmanager
def host(world: World, port: int, *, command: str = "", user_data: str = "") -> Iterator[tuple[FleetHostRun, Shared]]:
    """One that lives in a thread; its unit runs `command`."""
    script = user_data or USER_DATA.format(unit=UNIT.format(command=command), more="").replace("-job", "-fleet")
    images = world.client("ec2").describe_images(Owners=["amazon"])["Images"]
    made = world.client("ec2").run_instances(ImageId=images[0]["ImageId"], MinCount=1, MaxCount=1)
    machine = Shared(port)
    wanted = FleetLaunch(
        region=REGION, instance_id=made["Instances"][0]["InstanceId"], environment={"TORCHLIFT_CORES": "2"},
        user_data=script, role="", instance_type="inf2.24xlarge", health=CHECK,
    )  # fmt: skip
    run = FleetHostRun(
        site=world.executor.site, wanted=wanted, machine=lambda: cast("Machine", machine),
        environment={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    thread = threading.Thread(target=run.live)
    thread.start()
    try:
        yield run, machine
    finally:
        run.stop()
        thread.join(20)
    assert not thread.is_alive() and machine.closed
    assert not (world.executor.site.state_dir / "hosts" / run.id).exists()
    assert world.executor.state()["processes"] == []


def job(world: World) -> dict[str, Any]:
    return world.job("question-answering-fleet")


def log_of(world: World) -> str:
    return Path(job(world)["log"]).read_text()


def state_of(world: World, instance: str) -> str:
    found = world.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    return str(found["State"]["Name"])


def test_it_is_in_service_when_the_load_balancer_finds_it_healthy_and_until_it_leaves(world: World, nginx: int) -> None:
    with host(world, nginx, command="ls $TORCHLIFT_ROOT/dev; echo torchlift: 2 cores answer") as (run, _):
        eventually(lambda: run.in_service and job(world)["state"] == "succeeded")
        assert run.as_json()["state"] == "in service" and run.as_json()["url"] == f"http://127.0.0.1:{nginx}"
        devices = [f"neuron{number}" for number in range(6)]
        assert log_of(world).split()[:6] == devices, "those of its type"
        run.leave()
        assert not run.in_service and run.as_json()["state"] == "succeeded"
    assert log_of(world).endswith("Stopping torchlift-fleet.service\n")


def test_one_that_failed_says_why_and_stays(world: World, nginx: int) -> None:
    with host(world, nginx, command="echo torchlift: FAILURE: no token; exit 1") as (run, _):
        eventually(lambda: job(world)["state"] == "failed")
        assert job(world)["reason"] == "no token" and job(world)["mode"] == "images"
        assert state_of(world, run.id) == "running"


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo torchlift: FAILURE: user data: no aws; exit 1", "user data: no aws"), ("echo broken; exit 3", "status 3")],
)
def test_user_data_that_fails_is_the_reason(world: World, nginx: int, script: str, reason: str) -> None:
    with host(world, nginx, user_data=f"#!/bin/bash\n{script}\n") as (run, _):
        eventually(lambda: job(world)["state"] == "failed")
        assert reason in job(world)["reason"]
        assert state_of(world, run.id) == "running", "or its group would try again and again"


def test_one_that_goes_off_is_lost(world: World, nginx: int) -> None:
    with host(world, nginx, command="echo torchlift: 2 cores answer") as (run, _):
        eventually(lambda: job(world)["state"] == "succeeded")
        os.kill(world.executor.state()["processes"][0]["pid"], signal.SIGKILL)
        eventually(lambda: state_of(world, run.id) == "terminated")


def test_one_whose_machine_cannot_be_made_says_why(world: World, nginx: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Shared, port: int) -> int:
        raise OSError(1, "unshare: Operation not permitted")

    monkeypatch.setattr(Shared, "publish", refuse)
    with host(world, nginx, command="true"):
        eventually(lambda: job(world)["state"] == "failed")
        assert "unshare: Operation not permitted" in job(world)["reason"]
