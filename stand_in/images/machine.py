"""What makes a host a machine of its own: its images and containers, its `docker`, and its network."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from stand_in.images.engine import Engine, remove_folder
from stand_in.images.network import OwnNetwork
from stand_in.images.toolbox import write_docker


class Machine:
    """All of it is below `folder` or ends with `close()`. Nothing is pulled yet but look-alikes of base images."""

    def __init__(self, folder: Path, *, bases: Path, registry: str, reachable: Iterable[int]) -> None:
        """Make it. Raises OSError.

        :param bases: folder of the engine with the look-alikes, whose layers need not be pulled
        :param registry: host:port on loopback
        :param reachable: more ports of this machine's loopback that the host sees at its own
        """
        self._folder = folder
        self._engine = Engine(folder / "engine", bases=bases)
        self._bin = write_docker(folder / "bin", engine=self._engine.folder, registry=registry, bases=bases)
        self.network = OwnNetwork(reachable=[int(registry.rpartition(":")[2]), *reachable])

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base`, with `docker` on PATH."""
        return {**base, "PATH": os.pathsep.join([str(self._bin), base["PATH"]])}

    def remove_containers(self) -> None:
        """Whether they run or not. Raises EngineError."""
        self._engine.call("podman", "rm", "--force", "--ignore", "--time", "0", "--all", base=os.environ)

    def close(self) -> None:
        """Remove containers, images, and all connections; programs of the host have ended before."""
        try:
            self.remove_containers()
        finally:
            self.network.close()
            remove_folder(self._folder)
