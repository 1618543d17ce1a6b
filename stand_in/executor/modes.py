"""How jobs are executed: straight on this machine, or as the templates say, in the images that are built.

The one seam between the two: `builds`, `instances` and `endpoints` know a Mode and nothing of what is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stand_in.executor.endpoint_servers import PROGRAMS, Program
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


class Mode(Protocol):
    """What a mode decides."""

    def build(
        self,
        *,
        buildspec: str,
        site: Site,
        region: str,
        environment: Mapping[str, str],
        number: str,
        role: str,
        timeout_s: float,
    ) -> JobRun:
        """The run of a CodeBuild build, not begun yet."""
        ...

    def instance(
        self,
        *,
        site: Site,
        region: str,
        instance_id: str,
        environment: Mapping[str, str],
        user_data: str,
        role: str,
    ) -> Instance:
        """An instance with the job that `user_data` carries, which `environment` is read from; not begun yet."""
        ...

    def program(self, name: str) -> Program:
        """How a serving program of the table in `direct` is started."""
        ...

    def close(self) -> None:
        """Remove what the mode keeps; called when everything that it made has ended."""
        ...


class Direct:
    """The job's own scripts and commands as processes of this machine; images are stood for by manifests."""

    def build(
        self,
        *,
        buildspec: str,
        site: Site,
        region: str,
        environment: Mapping[str, str],
        number: str,
        role: str,
        timeout_s: float,
    ) -> JobRun:
        return JobRun(
            site=site,
            region=region,
            kind="build",
            environment=environment,
            number=number,
            role=role,
            timeout_s=timeout_s,
        )

    def instance(
        self,
        *,
        site: Site,
        region: str,
        instance_id: str,
        environment: Mapping[str, str],
        user_data: str,
        role: str,
    ) -> Instance:
        return InstanceRun(site=site, region=region, instance_id=instance_id, environment=environment, role=role)

    def program(self, name: str) -> Program:
        return PROGRAMS[name]

    def close(self) -> None:
        """Nothing is kept."""


def choose(name: str, site: Site) -> Mode:
    """The mode of that name. Raises ValueError for another, and CannotRunImages where images cannot run."""
    if name == "direct":
        return Direct()
    if name == "images":
        from stand_in.executor.images_mode import Images

        return Images(site)
    raise ValueError(f"there is no mode '{name}': it is one of {', '.join(MODES)}")
