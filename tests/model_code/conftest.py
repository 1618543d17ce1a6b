"""Tiny models and data, and the training that most tests start from."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """The module tiny_model beside this file (test folders are no packages)."""
    path = Path(__file__).with_name("tiny_model.py")
    spec = importlib.util.spec_from_file_location("torchlift_tiny_model", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Tiny models are fastest on one thread, and give the same bits every time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def base(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT without dropout."""
    path: Path = tiny.write_base(tmp_path_factory.mktemp("base") / "model", dropout=0.0)
    return path


@pytest.fixture(scope="session")
def data(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """177 training sentences with two labels, 20 for validation, 20 for the test."""
    path: Path = tiny.write_data(tmp_path_factory.mktemp("data") / "data")
    return path


@pytest.fixture(scope="session")
def train(base: Path, data: Path) -> Callable[..., int]:
    """Run train.py in this process; returns its exit status."""
    from model_code.sentiment import train as module

    def run(work: Path, *extra: str, base_model: Path | str = base, data_folder: Path | str = data) -> int:
        return module.main(
            [
                "--base-model", str(base_model), "--data", str(data_folder), "--output", str(work / "output"),
                "--checkpoints", str(work / "checkpoints"), "--epochs", "3", "--learning-rate", "5e-3",
                "--batch-size", "8", "--max-length", "32", "--log-seconds", "0", *extra,
            ]
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def trained(train: Callable[..., int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of one finished training."""
    work = tmp_path_factory.mktemp("trained")
    assert train(work) == 0
    return work / "output"
