"""Every deployment is synthesized once a session, whichever tests and however many processes ask for it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.skips import pytest_make_collect_report, pytest_runtest_makereport
from tests.stacks.synthesis import DEPLOYMENTS, Synthesized, edited, in_process, in_subprocess

# Before anything loads OpenMP. Two processes test at once, on two cores in CI: threads that wait by spinning take them
# from each other, so that two trainings beside each other last twice as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]  # hooks


@pytest.fixture(scope="session")
def deployments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Synthesized]:
    """The shipped deployments by name, synthesized by `python app.py`."""
    base = tmp_path_factory.getbasetemp()
    # Under pytest-xdist each process has a folder of its own, all of them in one.
    shared = base.parent if base.name.startswith("popen-gw") else base
    result = {}
    for name in DEPLOYMENTS:
        folder = shared / "synthesized" / name
        folder.parent.mkdir(exist_ok=True)
        with (folder.parent / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "manifest.json").exists():
                done = in_subprocess(name, folder)
                assert done.returncode == 0, done.stderr
        result[name] = Synthesized(folder)
    return result


View = Callable[[Synthesized], Synthesized]


@pytest.fixture
def view(request: pytest.FixtureRequest) -> View:
    """What a test module sees: all stacks, or those that its mark names (`pytestmark = pytest.mark.stacks(...)`)."""
    mark = request.node.get_closest_marker("stacks")
    return lambda whole: whole.only(*mark.args) if mark else whole


@pytest.fixture
def dev(deployments: dict[str, Synthesized], view: View) -> Synthesized:
    """The development deployment."""
    return view(deployments["dev"])


@pytest.fixture
def prod(deployments: dict[str, Synthesized], view: View) -> Synthesized:
    """The production deployment."""
    return view(deployments["prod"])


@pytest.fixture(params=DEPLOYMENTS)
def deployment(
    request: pytest.FixtureRequest, deployments: dict[str, Synthesized], view: View
) -> Iterator[Synthesized]:
    """Each shipped deployment in turn."""
    yield view(deployments[request.param])


@pytest.fixture(scope="session")
def synthesize_whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Synthesized]:
    """As `synthesize`, with all stacks; the same again costs nothing."""
    made: dict[str, Synthesized] = {}

    def run(name: str = "dev", changes: dict[str, object] | None = None) -> Synthesized:
        key = f"{name}{sorted((changes or {}).items())}"
        if key not in made:
            folder: Path = tmp_path_factory.mktemp("synthesized")
            path = edited(name, changes or {}, folder)
            made[key] = in_process(path, folder / "cdk.out")
        return made[key]

    return run


@pytest.fixture
def synthesize(synthesize_whole: Callable[..., Synthesized], view: View) -> Callable[..., Synthesized]:
    """Synthesize a shipped deployment with changed settings, `{"training.mode": "skip"}`; None takes a key out."""
    return lambda *arguments, **named: view(synthesize_whole(*arguments, **named))
