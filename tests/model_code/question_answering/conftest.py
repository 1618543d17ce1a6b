"""One tiny model, traced for the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_code.question_answering import trace
from model_code.question_answering.compiled import CompiledModel
from tests.model_code.question_answering.tiny_qa import trace_arguments, write_model


@pytest.fixture(scope="session")
def qa_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model."""
    return write_model(tmp_path_factory.mktemp("qa") / "model")


@pytest.fixture(scope="session")
def traced(qa_model: Path) -> Path:
    """What trace.py made of it."""
    output = qa_model.parent / "traced"
    assert trace.main(trace_arguments(qa_model, output)) == 0
    return output


@pytest.fixture(scope="session")
def compiled(traced: Path) -> CompiledModel:
    """The traced model, loaded."""
    return CompiledModel(traced)
