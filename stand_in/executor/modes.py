"""How jobs are executed: straight on this machine, or as the templates say, in the images that are built.

The one seam between the two: `builds`, `instances` and `endpoints` know a Mode and nothing of what is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from stand_in.executor.endpoint_servers import PROGRAMS, Program
from stand_in.executor.fleet_instance import FleetInstance
from stand_in.executor.health import HealthCheck
from stand_in.executor.instance_run import InstanceRun
from stand_in.executor.jobs import JobRun
from stand_in.executor.site import Site

MODES = ("direct", "images")


class Instance(Protocol):
    """One instance of a job's group; `live()` blocks until its end, `stop()` may be called at any time."""

    leaving: bool
    """Whether it asked for its own end."""

    def live(self) -> None:
        """Do the instance's work, signal, and leave the group."""
        ...

    def stop(self) -> None:
        """End it, and remove what it made."""
        ...


class Member(Protocol):
    """One instance of the fleet; `live()` boots it, signals, and may last until `stop()`."""

    id: str

    @property
    def in_service(self) -> bool:
        """Whether the load balancer sends it requests."""
        ...

    @property
    def port(self) -> int | None:
        """Of loopback, where it is reached; None before there is something to reach."""
        ...

    def as_json(self) -> dict[str, Any]:
        """The entry of `/_torchlift/state`."""
        ...

    def live(self) -> None:
        """Boot, and tell the stack how it went."""
        ...

    def leave(self) -> None:
        """Take it out of service, for good."""
        ...

    def stop(self) -> None:
        """The instance is gone: end what runs on it, and remove what it made."""
        ...


@dataclass(frozen=True, kw_only=True)
class Build:
    """A build that CodeBuild was asked for.

    :param environment: the project's variables, with those of the call
    :param number: names its files
    """

    buildspec: str
    region: str
    environment: Mapping[str, str]
    number: str
    role: str
    timeout_s: float


@dataclass(frozen=True, kw_only=True)
class Launch:
    """An instance that a job's group launched.

    :param environment: the job's, as `user_data` carries it
    """

    region: str
    instance_id: str
    environment: Mapping[str, str]
    user_data: str
    role: str


@dataclass(frozen=True, kw_only=True)
class FleetLaunch(Launch):
    """An instance that the fleet's group launched.

    :param environment: the fleet's, as `user_data` carries it
    :param health: the check of the target group that it is registered in
    """

    instance_type: str
    health: HealthCheck


class Mode(Protocol):
    """What a mode decides."""

    def build(self, wanted: Build) -> JobRun:
        """The run of a build, not begun yet."""
        ...

    def instance(self, wanted: Launch) -> Instance:
        """An instance with its job, not begun yet."""
        ...

    def member(self, wanted: FleetLaunch) -> Member:
        """An instance of the fleet, not begun yet."""
        ...

    def program(self, name: str) -> Program:
        """How a serving program of the table in `direct` is started."""
        ...

    def close(self) -> None:
        """Remove what the mode keeps; called when everything that it made has ended."""
        ...


class Direct:
    """The job's own scripts and commands as processes of this machine; images are stood for by manifests."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def build(self, wanted: Build) -> JobRun:
        return JobRun(
            site=self._site,
            region=wanted.region,
            kind="build",
            environment=wanted.environment,
            number=wanted.number,
            role=wanted.role,
            timeout_s=wanted.timeout_s,
        )

    def instance(self, wanted: Launch) -> Instance:
        return InstanceRun(
            site=self._site,
            region=wanted.region,
            instance_id=wanted.instance_id,
            environment=wanted.environment,
            role=wanted.role,
        )

    def member(self, wanted: FleetLaunch) -> Member:
        return FleetInstance(
            site=self._site,
            region=wanted.region,
            instance_id=wanted.instance_id,
            environment=wanted.environment,
            role=wanted.role,
        )

    def program(self, name: str) -> Program:
        return PROGRAMS[name]

    def close(self) -> None:
        """Nothing is kept."""


def choose(name: str, site: Site) -> Mode:
    """The mode of that name. Raises ValueError for another, and CannotRunImages where images cannot run."""
    if name == "direct":
        return Direct(site)
    if name == "images":
        from stand_in.executor.images_mode import Images

        return Images(site)
    raise ValueError(f"there is no mode '{name}': it is one of {', '.join(MODES)}")
