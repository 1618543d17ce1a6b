"""What a job is given is what it runs: a file too many costs a training run some day, one too few fails it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from model_code.sentiment.package import CODE
from settings import REPO_ROOT
from stacks import bundles
from stacks.job_inputs import MIRROR_REQUIREMENTS


def module_file(name: str) -> Path | None:
    """The file of one of our modules or packages."""
    path = REPO_ROOT.joinpath(*name.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return file
    return None


def imported(file: Path) -> set[str]:
    """Modules of model_code that a file names in any import, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "model_code" and module_file(name)}


def closure(*names: str) -> set[str]:
    """Files of the modules and of everything that they import, with the packages they lie in."""
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        file = module_file(name)
        assert file is not None, name
        todo += imported(file)
        if "." in name:
            todo.append(name.rpartition(".")[0])
    return {str(file.relative_to(REPO_ROOT)) for file in map(module_file, seen) if file}


@pytest.mark.parametrize(
    ("bundle", "entries"),
    [
        (bundles.HUB_MIRROR, ["model_code.hub_mirror"]),
        (bundles.TRAINING, ["model_code.sentiment.train"]),
        (bundles.ENCODING, ["model_code.text_encoding.build", "model_code.text_encoding.cpu_model"]),
        (bundles.TRACING, ["model_code.question_answering.trace"]),
        (bundles.SERVING, ["model_code.serving.__main__"]),
        (bundles.NEURON_MONITOR, ["model_code.neuron_monitor.__main__"]),
    ],
)
def test_bundle(bundle: tuple[str, ...], entries: list[str]) -> None:
    assert set(bundle) == closure(*entries)
    assert len(set(bundle)) == len(bundle)


def test_packaging_brings_what_goes_into_the_archive() -> None:
    packed = {str(path.relative_to(REPO_ROOT)) for path in CODE.values()}
    assert set(bundles.PACKAGING) == closure("model_code.sentiment.package") | packed


def test_mirror_runs_the_versions_that_are_tested() -> None:
    pins = {
        line.split()[0] for line in (REPO_ROOT / "requirements" / "dev.txt").read_text().splitlines() if line.strip()
    }
    assert set(MIRROR_REQUIREMENTS) <= pins
