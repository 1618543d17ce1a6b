"""The same text from the same repository: on every machine, at any time, without anything from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from settings import REPO_ROOT
from tests.stacks.normalized import normalized
from tests.stacks.synthesis import Synthesized, in_subprocess
from tests.stacks.test_jobs import hashes

CHECKOUT = ("app.py", "settings", "stacks", "constructs", "model_code", "containers", "hosts", "scripts", "deployments")


def texts(folder: Path) -> dict[str, bytes]:
    """What must be equal: templates, asset manifests, the manifest and the tree; metadata hold temporary paths."""
    names = [*folder.glob("*.template.json"), *folder.glob("*.assets.json"), *folder.glob("tree.json")]
    return {path.name: path.read_bytes() for path in [*names, folder / "manifest.json"]}


def assets(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("asset.*/**/*") if path.is_file()}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a synthesis reads, in another place."""
    (tmp_path / "elsewhere").mkdir()
    for name in CHECKOUT:
        source = REPO_ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, tmp_path / "elsewhere" / name, ignore=ignore)
        else:
            shutil.copy(source, tmp_path / "elsewhere" / name)
    return tmp_path / "elsewhere"


def synthesize_copy(checkout: Path, outdir: Path) -> Synthesized:
    # An editable install may be bound to the original checkout: its folders come first.
    path = os.pathsep.join([str(checkout), str(checkout / "constructs")])
    done = in_subprocess("dev", outdir, root=checkout, environment={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return Synthesized(outdir)


def bare_environment(folder: Path) -> dict[str, str]:
    """No credentials, no home, and on PATH only Python and Node: no docker, no git, no AWS CLI."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("node", "python"):
        found = shutil.which(name)
        assert found is not None, name
        # By a script: a link would make Python look for its environment beside the link.
        (programs / name).write_text(f'#!/bin/sh\nexec "{found}" "$@"\n')
        (programs / name).chmod(0o755)
    return {"PATH": str(programs), "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def isolated() -> tuple[str, ...]:
    """A command that takes the network away, where this is permitted."""
    unshare = shutil.which("unshare")
    for options in (("-n",), ("-r", "-n")):
        if unshare and subprocess.run([unshare, *options, "true"], capture_output=True, check=False).returncode == 0:
            return (unshare, *options)
    return ()


def test_again_without_credentials_network_and_docker(dev: Synthesized, tmp_path: Path) -> None:
    done = in_subprocess("dev", tmp_path / "cdk.out", environment=bare_environment(tmp_path), prefix=isolated())
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert texts(tmp_path / "cdk.out") == texts(dev.folder)
    assert assets(tmp_path / "cdk.out") == assets(dev.folder)


def test_place_times_modes_and_caches_change_nothing(dev: Synthesized, checkout: Path, tmp_path: Path) -> None:
    for folder in ("model_code", "scripts", "hosts", "containers", "constructs/torchlift/handlers"):
        cache = checkout / folder / "__pycache__"
        cache.mkdir()
        (cache / "module.cpython-313.pyc").write_bytes(b"compiled")
    for path in checkout.rglob("*"):
        if path.is_file():
            path.chmod(0o664)
            os.utime(path, (1_000_000_000, 1_000_000_000))
    made = synthesize_copy(checkout, tmp_path / "cdk.out")
    assert texts(made.folder) == texts(dev.folder)
    assert assets(made.folder) == assets(dev.folder)


def test_changed_model_code_changes_hashes_and_no_snapshot(dev: Synthesized, checkout: Path, tmp_path: Path) -> None:
    with (checkout / "model_code" / "sentiment" / "train.py").open("a") as file:
        file.write("# another line\n")
    made = synthesize_copy(checkout, tmp_path / "cdk.out")
    before, after = hashes(dev), hashes(made)
    assert {job for job in before if before[job] != after[job]} == {"SentimentTraining", "weights", "packages"}
    for stack, template in dev.templates.items():
        assert normalized(made.templates[stack]) == normalized(template)


def test_changed_hyperparameter_changes_the_hash(synthesize: Callable[..., Synthesized]) -> None:
    before, after = (hashes(synthesize("dev", item)) for item in ({}, {"training.seed": 43}))
    assert before["weights"] != after["weights"]
    assert before["inputs"] == after["inputs"]


def test_in_process_and_by_command_are_the_same(dev: Synthesized, synthesize: Callable[..., Synthesized]) -> None:
    assert synthesize().templates == dev.templates
