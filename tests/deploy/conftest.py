"""The stand-in and the CDK CLI, with an environment that would lead careless clients into a trap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.trap import Trap, trap

pytest.register_assert_rewrite("tests.deploy.permissions", "tests.deploy.question_answering")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sprung_trap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trap]:
    """Real-looking credentials and endpoints in this process while a module's tests run."""
    with trap() as made, pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment(tmp_path_factory.mktemp("trap")).items():
            patch.setenv(name, value)
        yield made


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT
