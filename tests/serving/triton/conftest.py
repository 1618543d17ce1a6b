"""A real Triton server with three models that tell each other apart."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from model_code.archive import unpack
from model_code.text_encoding import model_config, repository
from stand_in.executor import triton
from stand_in.executor.servers import Answer, CannotServe

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def models() -> ModuleType:
    """The module models.py beside this file: test folders are no packages."""
    spec = importlib.util.spec_from_file_location("torchlift_triton_models", Path(__file__).with_name("models.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Endpoint:
    """What SageMaker does around the container: archives unpacked below a hash, models loaded from there."""

    server: triton.Triton
    root: Path
    archives: Path
    counter: list[int] = field(default_factory=list)

    def unpacked(self, target: str) -> Path:
        """The folder that the container gets for an archive."""
        self.counter.append(0)
        folder = self.root / f"{len(self.counter):04d}" / "model"
        unpack(self.archives / target, folder)
        return folder

    def load(self, target: str, folder: Path | None = None) -> Answer:
        """Load an archive under a name that stands for SageMaker's hash."""
        return self.server.load(self.name(target), folder or self.unpacked(target), target=target)

    def unload(self, target: str) -> Answer:
        return self.server.unload(self.name(target), target=target)

    def name(self, target: str) -> str:
        return f"hash-of-{target.replace('.', '-')}"

    def path(self, target: str) -> str:
        """Where the container is asked for a model."""
        return f"/models/{self.name(target)}/invoke"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"


@pytest.fixture(scope="session")
def endpoint(models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A server, and archives enc-0 to enc-3 for the CPU."""
    work = tmp_path_factory.mktemp("triton")
    for seed in range(4):
        config = model_config.make(f"enc-{seed}", models.engine(), preferred=[4, 8], delay_us=200_000)
        onnx_file = models.encoder(work / f"{seed}.onnx", seed)
        repository.write_for_cpu(work / "archives", onnx_file, config)
    with tempfile.TemporaryDirectory(prefix="triton-") as scratch:
        try:
            server = triton.start(
                venv=triton.environment_folder(ROOT), scratch=Path(scratch), log=work / "triton.log", with_http=True,
                environment={"SAGEMAKER_TRITON_LOG_VERBOSE": "false"},
            )  # fmt: skip
        except CannotServe as missing:
            pytest.skip(str(missing))
        try:
            server.wait_until_ready()
            yield Endpoint(server, work / "models", work / "archives")
        finally:
            server.stop()


@pytest.fixture(scope="session")
def loaded(endpoint: Endpoint) -> Endpoint:
    """The endpoint with enc-1 to enc-3 loaded; enc-0 is for tests that load and unload."""
    for seed in (1, 2, 3):
        answer = endpoint.load(f"enc-{seed}.tar.gz")
        assert answer.status == 200, answer.body
    return endpoint
