"""Two tiny models, traced, and servers around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from model_code.question_answering import trace
from model_code.question_answering.compiled import CompiledModel
from tests.model_code.question_answering.tiny_qa import trace_arguments, write_model
from tests.serving.question_answering.qa_server import Server, serve


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models with other weights; 640 tokens hold the longest question that is allowed."""
    base = tmp_path_factory.mktemp("qa-served")
    for seed in (0, 1):
        model = write_model(base / f"model-{seed}", positions=640, seed=seed)
        arguments = trace_arguments(model, base / f"traced-{seed}", "--lengths", "32,128,640")
        assert trace.main([*arguments, "--null-threshold", "none"]) == 0
    return [base / "traced-0", base / "traced-1"]


@pytest.fixture(scope="session")
def models(folders: list[Path]) -> list[CompiledModel]:
    """The same, in this process."""
    return [CompiledModel(folder) for folder in folders]


@pytest.fixture(scope="session")
def server(folders: list[Path]) -> Iterator[Server]:
    """A server of core 11 with model_0 and model_1, the same twice."""
    with serve(NEURON_RT_VISIBLE_CORES="11", MODEL_SOURCE=str(folders[0]), NUM_MODELS_PER_SERVER="2") as running:
        yield running
