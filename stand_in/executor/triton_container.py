"""Images mode: Triton in the image of a multi-model endpoint, or of one with a single model.

Its SageMaker front end listens on all addresses, and containers share this machine's network: `loopback` keeps it, and
whatever else listens in the container, on loopback.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stand_in.executor import triton_endpoint
from stand_in.executor.container import Docker, Running
from stand_in.executor.servers import Answer, Container, ModelServer, free_ports
from stand_in.executor.site import Site
from stand_in.executor.triton import LOOPBACK, Triton

MODELS, MODEL = "/opt/ml/models", "/opt/ml/model"


class ContainerTriton(Triton):
    """A running container, which sees the folder of all models under a name of its own."""

    program = "Triton in its image,"

    def __init__(self, *, running: Running, port: int, models: Path) -> None:
        super().__init__(child=running.child, port=port, http_port=None)
        self._running = running
        self._models = models

    def load(self, name: str, folder: Path, *, target: str) -> Answer:
        """Load the model in `folder`, which is below the folder of all models."""
        return super().load(name, Path(MODELS, folder.relative_to(self._models)), target=target)

    def stop(self) -> None:
        self._running.stop()


def start(site: Site, *, region: str, endpoint: str, container: Container, docker: Docker) -> ModelServer:
    """Pull the image and start the container; it is not ready yet. Raises CannotServe."""

    def begin(models: Path, scratch: Path, log: Path, variables: dict[str, str]) -> Triton:
        docker.pull(container.image)
        (port,) = free_ports(1)
        running = docker.serve(
            container.image,
            name=f"torchlift-{endpoint}-{port}",
            volume=(models, MODELS if container.multi_model else MODEL),
            variables={**variables, "SAGEMAKER_BIND_TO_PORT": str(port)},
            log=log,
            options=("--read-only", "--tmpfs", "/tmp"),
            under=(sys.executable, str(LOOPBACK)),
        )
        return ContainerTriton(running=running, port=port, models=models)

    return triton_endpoint.start(site, region=region, endpoint=endpoint, container=container, begin=begin)
