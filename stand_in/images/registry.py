"""A registry on loopback in place of ECR's own: the same protocol, without its login."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

from stand_in.executor.processes import Child, spawn
from stand_in.executor.servers import free_ports

STARTS_WITHIN_SECONDS = 30


class Registry:
    """`address` is host:port; what is pushed lies below `folder`."""

    def __init__(self, folder: Path, *, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        configuration = folder / "registry.yml"
        configuration.write_text(
            f"""version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: {folder}/store}}
  delete: {{enabled: true}}
http: {{addr: "{self.address}"}}
"""
        )
        self._child: Child = spawn(
            ["docker-registry", "serve", str(configuration)],
            env=environment,
            cwd=folder,
            log=folder / "registry.log",
        )
        self._wait()

    def stop(self) -> None:
        """End it; harmless when repeated."""
        self._child.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < deadline and self._child.poll() is None:
            try:
                with urllib.request.urlopen(f"http://{self.address}/v2/", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        said = self._child.log.read_text(errors="replace")[-500:]
        self.stop()
        raise RuntimeError(f"the registry did not start: {said}")
