"""One tiny model, trained, packed and served for all tests of this folder."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from model_code.archive import unpack
from model_code.sentiment import train
from model_code.sentiment.package import package
from settings import load_settings
from stacks.serving_environment import container_environment

TESTS = Path(__file__).parents[1]


def load(path: Path) -> ModuleType:
    """A module by its file: test folders are no packages."""
    spec = importlib.util.spec_from_file_location(f"torchlift_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    return load(TESTS / "model_code" / "tiny_model.py")


@pytest.fixture(scope="session")
def toolkit_server() -> ModuleType:
    return load(TESTS / "serving" / "server.py")


@pytest.fixture(scope="session")
def hostile() -> ModuleType:
    return load(TESTS / "serving" / "hostile.py")


@pytest.fixture(scope="session")
def weights(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, trained."""
    work = tmp_path_factory.mktemp("tiny")
    status = train.main(
        [
            "--base-model", str(tiny.write_base(work / "base", dropout=0.0)),
            "--data", str(tiny.write_data(work / "data", labels=3, train=180)), "--output", str(work / "output"),
            "--checkpoints", str(work / "checkpoints"), "--epochs", "3", "--learning-rate", "5e-3",
            "--batch-size", "8", "--max-length", "32",
        ]
    )  # fmt: skip
    assert status == 0
    return work / "output"


@pytest.fixture(scope="session")
def archive(weights: Path) -> Path:
    """The model.tar.gz of the tiny model."""
    package(weights, weights.parent / "model.tar.gz")
    return weights.parent / "model.tar.gz"


def environment(**settings: object) -> dict[str, str]:
    """The endpoint's own variables under `settings`, with one worker of one thread; the places are the server's."""
    sentiment = load_settings("dev", root=TESTS.parent).sentiment
    assert sentiment is not None
    given = {"workers": 1, "bf16": False, "max_batch_texts": 32, **settings}
    made = container_environment(sentiment.endpoint.model_copy(update=given), vcpus=1)
    return {name: value for name, value in made.items() if not value.startswith("/opt/ml")}


@pytest.fixture(scope="session")
def endpoint_environment() -> Callable[..., dict[str, str]]:
    return environment


@pytest.fixture(scope="session")
def server(archive: Path, toolkit_server: ModuleType) -> Iterator[Any]:
    """A real TorchServe with the SageMaker toolkit around the unpacked archive."""
    unpack(archive, archive.parent / "model")
    with toolkit_server.serve(archive.parent / "model", **environment()) as running:
        yield running
