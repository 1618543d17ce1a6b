"""One instance of the fleet in images mode: its user data on a host that is a machine of its own."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from settings.hardware import EC2_TYPES
from stand_in.executor.health import Health
from stand_in.executor.host_process import HostProcess
from stand_in.executor.job_environment import text
from stand_in.executor.modes import FleetLaunch
from stand_in.executor.processes import tail
from stand_in.executor.site import Site
from stand_in.executor.state import JobState
from stand_in.images.machine import Machine

log = logging.getLogger(__name__)
JOB = "question-answering-fleet"
UNIT = "torchlift-fleet.service"
PORT = 8080
"""Where the host's nginx listens; hosts/inferentia/fleet.sh."""
SHUTDOWN_SECONDS = 60.0
"""For the host's units to end by themselves: nginx and servers answer what they have."""
LOOK_SECONDS = 0.5
VERDICT = re.compile(r"^torchlift: (?:(\d+ cores answer)|FAILURE: (.*))$", re.MULTILINE)
"""What hosts/inferentia/fleet.sh and user_data.sh say of a boot."""


class FleetHostRun:
    """`live()` lasts until the host is off. One that failed to boot stays, as on AWS, until its group ends it."""

    def __init__(
        self, *, site: Site, wanted: FleetLaunch, machine: Callable[[], Machine], environment: Mapping[str, str]
    ) -> None:
        """Take note of what is to run.

        :param machine: makes its engine and its network
        :param environment: of an AWS client with the role's credentials
        """
        self.id = wanted.instance_id
        self._site = site
        self._wanted = wanted
        self._make = machine
        self._machine: Machine | None = None
        self._environment = environment
        self._port: int | None = None
        self._health: Health | None = None
        self._left = threading.Event()
        self._lock = threading.Lock()
        self._log = site.log_path(f"instance-{JOB}")
        self._state = site.registry.add_job(JobState(job=JOB, kind="instance", hash="", log=self._log, mode="images"))
        self._host = HostProcess(site=site, instance_id=self.id, what=f"instance {JOB}", unit=UNIT, log=self._log)

    @property
    def port(self) -> int | None:
        """Of loopback, which leads to the host's nginx."""
        return self._port

    @property
    def in_service(self) -> bool:
        """Whether the load balancer finds it healthy, and nobody took it out."""
        return self._health is not None and self._health.healthy and not self._left.is_set()

    def as_json(self) -> dict[str, Any]:
        """The entry of `/_torchlift/state`; what runs on the host is the host's own business."""
        return {
            "instance": self.id,
            "state": "in service" if self.in_service else self._state.state,
            "url": f"http://127.0.0.1:{self._port}" if self._port else None,
            "proxy": "nginx in its image",
            "cores": [{"core": core} for core in range(int(self._wanted.environment["TORCHLIFT_CORES"]))],
            "log": str(self._log),
        }

    def live(self) -> None:
        """Boot the host, and watch it until its end."""
        status: int | None = None
        try:
            with self._lock:
                if self._host.stopped:
                    return
                machine = self._machine = self._make()
                self._port = machine.network.publish(PORT)
                self._health = Health(self._wanted.health, self._port)
                self._put_devices()
            threading.Thread(target=self._watch, args=(self._health,), name=f"watch {self.id}", daemon=True).start()
            status = self._host.live(
                text(self._wanted.user_data),
                machine=machine.environment(self._environment),
                enter=machine.network.enter(),
            )
            reason = f"the host ended with status {status}: {tail(self._log, lines=5)}"[:1000]
        except Exception as error:  # or nobody would know why nothing answers
            log.exception("instance %s", self.id)
            reason = f"{type(error).__name__}: {error}"
        if self._host.stopped:
            return
        self._hear()
        if self._state.state == "running":
            self._state.end("failed", reason)
        elif self._state.state == "succeeded":
            # An instance that is off counts as lost, and its group starts another.
            with suppress(Exception):
                self._site.own_client("ec2", self._wanted.region).terminate_instances(InstanceIds=[self.id])

    def leave(self) -> None:
        """No more requests."""
        self._left.set()

    def stop(self) -> None:
        """The instance is gone: shut the host down, unit by unit, and remove its containers and images."""
        self.leave()
        self._host.stop(seconds=SHUTDOWN_SECONDS)
        self._hear()
        if self._state.state == "running":
            self._state.end("stopped", "the instance was terminated")
        try:
            with self._lock:
                if self._machine is not None:
                    self._machine.close()
        finally:
            self._host.remove()

    def _put_devices(self) -> None:
        """Those of the instance's type, as empty files: the host's scripts look for them, and no server opens one."""
        folder = self._host.root / "dev"
        folder.mkdir(parents=True)
        for number in range(EC2_TYPES[self._wanted.instance_type].neuron_devices):
            (folder / f"neuron{number}").touch()

    def _watch(self, health: Health) -> None:
        """Look at its health as the load balancer does, and listen to what it says of its boot."""
        due = 0.0
        while not self._left.wait(LOOK_SECONDS):
            self._hear()
            if time.monotonic() >= due:
                due = time.monotonic() + health.check.interval_s
                health.look()

    def _hear(self) -> None:
        """End the boot's state as the host itself told it."""
        if self._state.state != "running" or not self._log.exists():
            return
        found = VERDICT.search(self._log.read_text(errors="replace"))
        if found:
            self._state.end(*(("succeeded", "") if found[1] else ("failed", found[2])))
