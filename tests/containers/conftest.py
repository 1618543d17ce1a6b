"""Images built, pushed, pulled and run for real: by the scripts that build them on AWS, on bases that look alike."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from settings import REPO_ROOT
from settings.images import BaseImage
from stand_in.executor.processes import Child, spawn
from stand_in.images.engine import Engine
from stand_in.images.readiness import CannotRunImages, require
from stand_in.images.registry import Registry
from stand_in.images.toolbox import write_docker
from tests.support.aws import ACCOUNT, REGION, aws_environment, moto_server

pytest.register_assert_rewrite("tests.deploy.question_answering")
BUILD_SECONDS = 1200


@dataclass
class Yard:
    """Where images are made: an engine, a registry, an ECR, and the environment that a job of CodeBuild would have."""

    engine: Engine
    environment: dict[str, str]
    folder: Path
    built: dict[str, str]

    def client(self, service: str) -> Any:
        client: Any = boto3.client
        return client(
            service,
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def image(self, name: str, *, base: BaseImage | str, platform: str = "linux/amd64", **environment: str) -> str:
        """Build and push `containers/<name>` by its own build.sh, pull it back; its URI. Built once a session.

        :param base: one of AWS's, or the URI of one of ours that is here
        """
        if name not in self.built:
            repository = f"{name}-{uuid.uuid4().hex[:8]}"
            self.client("ecr").create_repository(repositoryName=repository, imageTagMutability="IMMUTABLE")
            uri = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{repository}:0123456789abcdef"
            self.run(
                "bash",
                str(REPO_ROOT / "containers" / name / "build.sh"),
                TORCHLIFT_RESULT=f"ecr://{uri}",
                TORCHLIFT_HOME=str(REPO_ROOT),
                TORCHLIFT_PLATFORM=platform,
                BASE_IMAGE=base if isinstance(base, str) else base.uri(REGION),
                **environment,
            )
            self.run("docker", "pull", "--quiet", uri)
            self.built[name] = uri
        return self.built[name]

    def run(self, *command: str, **variables: str) -> str:
        """Run a command to its end; what it printed."""
        child = self.start(*command, **variables)
        status = child.wait(BUILD_SECONDS)
        said = child.log.read_text(errors="replace")
        assert status == 0, f"exit {status}:\n{said[-4000:]}"
        return said

    def start(self, *command: str, **variables: str) -> Child:
        """Start a command that ends with the test run, whatever happens."""
        log = self.folder / f"{uuid.uuid4().hex[:8]}.log"
        return spawn(list(command), env={**self.environment, **variables}, cwd=self.folder, log=log)


@pytest.fixture(scope="session")
def image_tools() -> None:
    """What builds and runs images, on a machine that lets containers run; in CI a skip fails (tests/skips.py)."""
    try:
        require()
    except CannotRunImages as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def yard(tmp_path_factory: pytest.TempPathFactory, image_tools: None) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("yard")
    # Look-alikes last longer than a session; `make clean` removes them.
    engine = Engine(REPO_ROOT / "build" / "images")
    with moto_server() as endpoint:
        environment = aws_environment(endpoint)
        registry = Registry(folder / "registry", environment=environment)
        bin = write_docker(folder / "bin", engine=engine.folder, registry=registry.address)
        environment["PATH"] = f"{bin}{os.pathsep}{environment['PATH']}"
        try:
            yield Yard(engine=engine, environment=environment, folder=folder, built={})
        finally:
            registry.stop()


@pytest.fixture(scope="module")
def fixed_ports(yard: Yard) -> Iterator[None]:
    """Containers share this machine's network, and some programs in them have ports of their own: one module a time."""
    with (yard.engine.folder / "ports.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_only(image: str, *words: str, folder: Path | None = None) -> list[str]:
    """Run an image that trains or builds, with a read-only root; `folder` is where it is on this machine."""
    options = ["--rm", "--read-only", "--tmpfs", "/tmp", "--tmpfs", "/home/torchlift"]
    if folder is not None:
        options += ["--volume", f"{folder}:{folder}", "--workdir", str(folder)]
    return ["docker", "run", *options, image, *words]
