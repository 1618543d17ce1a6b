"""Images mode: TorchServe in the serving image of an endpoint."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

from stand_in.executor import model_data
from stand_in.executor.container import Docker, Running
from stand_in.executor.servers import Container, ModelServer, free_ports
from stand_in.executor.site import Site

PROGRAM = "TorchServe"
VERSION = ("python3", "-c", "import importlib.metadata; print(importlib.metadata.version('torchserve'))")


class ContainerServer(ModelServer):
    """A running container; `stop()` also removes it and its model."""

    def __init__(self, *, running: Running, port: int, container: Container, work: Path) -> None:
        super().__init__(
            child=running.child, program=f"{PROGRAM} in its image,", version="", port=port, container=container
        )
        self._running = running
        self._work = work

    def wait_until_ready(
        self, probe: bytes, *, seconds: float, hopeless: tuple[str, int] | None, cancelled: threading.Event
    ) -> None:
        """Block until an invocation is answered with 200. Raises NotReady."""
        super().wait_until_ready(probe, seconds=seconds, hopeless=hopeless, cancelled=cancelled)
        self.version = self._running.docker("exec", self._running.name, *VERSION).strip()

    def stop(self) -> None:
        try:
            self._running.stop()
        finally:
            shutil.rmtree(self._work, ignore_errors=True)


def start(site: Site, *, region: str, endpoint: str, container: Container, docker: Docker) -> ContainerServer:
    """Pull the image, unpack the model and start the container; it is not ready yet. Raises CannotServe."""
    parent = site.state_dir / "servers"
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=parent, prefix="container-"))
    try:
        docker.pull(container.image)
        model_data.fetch(site, region, container, work / "model")
        ports = free_ports(5)
        running = docker.serve(
            container.image,
            name=f"torchlift-{endpoint}-{ports[0]}",
            volume=(work / "model", "/opt/ml/model"),
            variables={**container.environment, **addresses(ports), "SAGEMAKER_REGION": region},
            log=site.log_path(f"endpoint-{endpoint}"),
        )
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return ContainerServer(running=running, port=ports[0], container=container, work=work)


def addresses(ports: list[int]) -> dict[str, str]:
    """Five free ports of loopback as TorchServe's variables: containers share this machine's network.

    The toolkit's property file says enable_envvars_config=true, so TorchServe lets these win over its 0.0.0.0.
    """
    first, second, third, fourth, fifth = ports
    return {
        "SAGEMAKER_BIND_TO_PORT": str(first),
        "TS_INFERENCE_ADDRESS": f"http://127.0.0.1:{first}",
        "TS_MANAGEMENT_ADDRESS": f"http://127.0.0.1:{first}",
        "TS_METRICS_ADDRESS": f"http://127.0.0.1:{second}",
        "TS_GRPC_INFERENCE_PORT": str(third),
        "TS_GRPC_MANAGEMENT_PORT": str(fourth),
        "TS_INITIAL_WORKER_PORT": str(fifth),
    }
