"""Images mode: builds run their buildspecs, and images are built, pushed and pulled for real.

buildah and podman take Docker's place and look-alikes that of the base images (docs/images.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stand_in.executor import buildspec as buildspecs
from stand_in.executor import container_server, direct, triton_container
from stand_in.executor.container import Docker
from stand_in.executor.endpoint_servers import PROGRAMS, Program
from stand_in.executor.fleet_host_run import FleetHostRun
from stand_in.executor.host_run import HostRun
from stand_in.executor.job_environment import text
from stand_in.executor.jobs import JobRun, SourceMissing
from stand_in.executor.modes import Build, Direct, FleetLaunch, Instance, Launch, Member
from stand_in.executor.processes import spawn
from stand_in.executor.servers import ModelServer
from stand_in.executor.site import Site
from stand_in.images.engine import Engine
from stand_in.images.machine import Machine
from stand_in.images.readiness import lasting, require, state_folder
from stand_in.images.registry import Registry
from stand_in.images.toolbox import write_docker

SERVERS = {container_server.PROGRAM: container_server.start, "Triton": triton_container.start}
"""Programs of the table in `direct`, in their images."""
JOB_CONTAINER = "torchlift-job"
"""The name that hosts/instance_job/run.sh gives it; one job at a time runs in this mode."""
PYTHON_SECONDS = 120


class Images:
    """What is built is in an engine and a registry below `state_folder`, which whoever ends the stand-in removes."""

    def __init__(self, site: Site) -> None:
        require()
        self._site = site
        self._direct = Direct(site)
        folder = state_folder(site.state_dir)
        self._engine = Engine(folder / "engine", bases=lasting(site.repo_root))
        environment = {**os.environ, **self._engine.environment()}
        self._registry = Registry(folder / "registry", environment=environment)
        self._bin = write_docker(
            folder / "bin",
            engine=self._engine.folder,
            registry=self._registry.address,
            bases=lasting(site.repo_root),
        )

    def build(self, wanted: Build) -> JobRun:
        return BuildspecRun(
            site=self._site,
            region=wanted.region,
            kind="build",
            environment=wanted.environment,
            number=wanted.number,
            role=wanted.role,
            timeout_s=wanted.timeout_s,
            mode="images",
            buildspec=wanted.buildspec,
            machine=self._job_machine(wanted),
        )

    def instance(self, wanted: Launch) -> Instance:
        return HostRun(
            site=self._site,
            region=wanted.region,
            instance_id=wanted.instance_id,
            environment=wanted.environment,
            user_data=text(wanted.user_data),
            machine=self._job_machine(wanted),
            remove_containers=lambda: self._remove(JOB_CONTAINER),
        )

    def member(self, wanted: FleetLaunch) -> Member:
        return FleetHostRun(
            site=self._site,
            wanted=wanted,
            machine=lambda: self._own_machine(wanted.instance_id),
            environment=self._site.environment(wanted.region, role=wanted.role),
        )

    def program(self, name: str) -> Program:
        if name not in SERVERS:
            return self._direct.program(name)
        return Program(start=partial(self._serve, SERVERS[name]), hopeless=PROGRAMS[name].hopeless)

    def close(self) -> None:
        self._remove("--all")
        self._registry.stop()

    def _serve(self, start: Callable[..., ModelServer], site: Site, **wanted: Any) -> ModelServer:
        machine = self._machine(site.environment(wanted["region"], role=wanted["container"].role))
        return start(site, **wanted, docker=Docker(machine=machine))

    def _remove(self, containers: str) -> None:
        """Remove containers of this engine, and their mounts, whether they run or not."""
        self._engine.call("podman", "rm", "--force", "--ignore", "--time", "0", containers, base=os.environ)

    def _own_machine(self, name: str) -> Machine:
        """Whose `docker` has pulled nothing yet, and who can reach nothing but AWS and the registry."""
        site = self._site
        port = urlsplit(site.base_url).port
        assert port is not None
        return Machine(
            state_folder(site.state_dir) / name,
            bases=lasting(site.repo_root),
            registry=self._registry.address,
            reachable=[port],
        )

    def _job_machine(self, wanted: Build | Launch) -> dict[str, str]:
        """The environment of a job's machine, with what tells the job that it lacks a device."""
        machine = self._machine(self._site.environment(wanted.region, role=wanted.role))
        return {**machine, **direct.here(wanted.environment.get("TORCHLIFT_JOB", ""))}

    def _machine(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment of a machine with `docker`."""
        return {**base, **pip_settings(), "PATH": os.pathsep.join([str(self._bin), base["PATH"]])}


def pip_settings() -> dict[str, str]:
    """Variables with which another `pip` has the settings of this machine's own."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    own = Path.home() / ".config" / "pip" / "pip.conf"
    if own.exists():
        settings.setdefault("PIP_CONFIG_FILE", str(own))
    return settings


@dataclass(kw_only=True)
class BuildspecRun(JobRun):
    """A build as CodeBuild runs it: its phases in one shell, in the unpacked source, with a Python of its own."""

    buildspec: str
    machine: Mapping[str, str]
    """The environment of the build's machine; the project's variables come on top."""

    def fetch_source(self) -> None:
        super().fetch_source()
        try:
            text = buildspecs.script(self.buildspec)
        except buildspecs.BuildspecError as error:
            raise SourceMissing(f"YAML_FILE_ERROR: {error}") from error
        (self.folder / "buildspec.sh").write_text(text)

    def command(self) -> list[str]:
        return ["bash", str(self.folder / "buildspec.sh")]

    def variables(self) -> dict[str, str]:
        """The project's variables on the machine's; its Python has no packages but those that the build installs."""
        python = self.folder / "python"
        if not python.exists():
            # The AWS CLI is a program of its own, on machines of CodeBuild as here.
            made = spawn(
                [sys.executable, "-m", "venv", str(python)], env=dict(self.machine), cwd=self.home, log=self.log
            )
            if made.wait(PYTHON_SECONDS) != 0:
                raise SourceMissing(f"no Python for the build could be made, see {self.log}")
        return {
            **self.machine,
            **self.environment,
            **self.extra,
            "PATH": os.pathsep.join([str(python / "bin"), self.machine["PATH"]]),
            "TORCHLIFT_WORK": str(self.work),
        }
