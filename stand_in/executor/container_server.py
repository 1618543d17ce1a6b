"""Images mode: the serving image of an endpoint, run as SageMaker runs it, but with the host's network."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from stand_in.executor import model_data
from stand_in.executor.processes import Child, spawn
from stand_in.executor.servers import CannotServe, Container, ModelServer, free_ports
from stand_in.executor.site import Site

PROGRAM = "TorchServe"
PULL_SECONDS = 600
VERSION = ("python3", "-c", "import importlib.metadata; print(importlib.metadata.version('torchserve'))")


class ContainerServer(ModelServer):
    """A running container; `stop()` also removes it and its model."""

    def __init__(
        self, *, child: Child, port: int, container: Container, name: str, work: Path, docker: Callable[..., str]
    ) -> None:
        super().__init__(child=child, program=f"{PROGRAM} in its image,", version="", port=port, container=container)
        self._name = name
        self._work = work
        self._docker = docker

    def wait_until_ready(
        self, probe: bytes, *, seconds: float, hopeless: tuple[str, int] | None, cancelled: threading.Event
    ) -> None:
        """Block until an invocation is answered with 200. Raises NotReady."""
        super().wait_until_ready(probe, seconds=seconds, hopeless=hopeless, cancelled=cancelled)
        self.version = self._docker("exec", self._name, *VERSION).strip()

    def stop(self) -> None:
        self._docker("rm", "--force", "--ignore", "--time", "5", self._name)
        super().stop()
        shutil.rmtree(self._work, ignore_errors=True)


def start(
    site: Site, *, region: str, endpoint: str, container: Container, machine: Mapping[str, str]
) -> ContainerServer:
    """Pull the image, unpack the model and start the container; it is not ready yet. Raises CannotServe.

    :param machine: the environment of a machine with `docker`
    """

    def docker(*arguments: str) -> str:
        done = subprocess.run(
            ["docker", *arguments], env=dict(machine), capture_output=True, text=True, timeout=PULL_SECONDS
        )
        if done.returncode:
            raise CannotServe(f"docker {arguments[0]}: exit {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
        return done.stdout

    parent = site.state_dir / "servers"
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=parent, prefix="container-"))
    try:
        docker("pull", "--quiet", container.image)
        model_data.fetch(site, region, container, work / "model")
        ports = free_ports(5)
        name = f"torchlift-{endpoint}-{ports[0]}"
        variables = {**container.environment, **addresses(ports), "SAGEMAKER_REGION": region}
        words = [word for key, value in sorted(variables.items()) for word in ("--env", f"{key}={value}")]
        mount = f"{work / 'model'}:/opt/ml/model:ro"
        child = spawn(
            ["docker", "run", "--rm", "--name", name, "--volume", mount, *words, container.image, "serve"],
            env=dict(machine),
            cwd=work,
            log=site.log_path(f"endpoint-{endpoint}"),
        )
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return ContainerServer(child=child, port=ports[0], container=container, name=name, work=work, docker=docker)


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
