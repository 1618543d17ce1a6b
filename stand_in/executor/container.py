"""Images mode: a serving image run as SageMaker runs it, but with this machine's network."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stand_in.executor.processes import Child, spawn
from stand_in.executor.servers import CannotServe

COMMAND_SECONDS = 600
"""For any `docker` command but `run`; pulling takes longest."""


@dataclass(frozen=True, kw_only=True)
class Docker:
    """`docker` on a machine with this environment."""

    machine: Mapping[str, str]

    def __call__(self, *arguments: str) -> str:
        """Run a command to its end; what it printed. Raises CannotServe."""
        done = subprocess.run(
            ["docker", *arguments], env=dict(self.machine), capture_output=True, text=True, timeout=COMMAND_SECONDS
        )
        if done.returncode:
            raise CannotServe(f"docker {arguments[0]}: exit {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
        return done.stdout

    def pull(self, image: str) -> None:
        """Pull an image from ECR. Raises CannotServe."""
        self("pull", "--quiet", image)

    def serve(
        self,
        image: str,
        *,
        name: str,
        volume: tuple[Path, str],
        variables: Mapping[str, str],
        log: Path,
        options: Sequence[str] = (),
        under: Sequence[str] = (),
    ) -> Running:
        """Start a container of an image that was pulled, with `serve`. Raises OSError.

        :param volume: a folder of this machine, and where the container has it, read-only
        :param options: more of `docker run`
        :param under: a program and its arguments, which runs `docker`
        """
        words = [word for key, value in sorted(variables.items()) for word in ("--env", f"{key}={value}")]
        source, target = volume
        command = ["docker", "run", "--rm", "--name", name, "--volume", f"{source}:{target}:ro", *options, *words]
        child = spawn([*under, *command, image, "serve"], env=dict(self.machine), cwd=source.parent, log=log)
        return Running(child=child, name=name, docker=self)


@dataclass(frozen=True, kw_only=True)
class Running:
    """A container and the `docker run` that waits for its end."""

    child: Child
    name: str
    docker: Docker

    def stop(self) -> None:
        """End it and remove it; harmless when repeated. Raises CannotServe."""
        # Nobody is asking it any more, and the stand-in itself has few seconds to end.
        words = ("rm", "--force", "--ignore", "--time", "2", self.name)
        try:
            self.docker(*words)
        except CannotServe:
            # podman cannot kill a container that ends at that moment, and leaves it to be removed.
            self.docker(*words)
        finally:
            self.child.stop()
