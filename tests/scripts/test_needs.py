"""A script whose variables are not all set says which one it misses, before it does anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scripts.conftest import REPO_ROOT, Workbench

NEEDED = re.compile(r"\$\{([A-Z_]+):\?\}")
SCRIPTS = sorted(path for path in REPO_ROOT.glob("scripts/*.sh") if NEEDED.search(path.read_text()))
NEEDS = {
    "build_image": "TORCHLIFT_RESULT TORCHLIFT_HOME TORCHLIFT_IMAGE_DIR TORCHLIFT_PLATFORM BASE_IMAGE",
    "checkpoints": "TORCHLIFT_CHECKPOINTS",
    "run_job": "TORCHLIFT_JOB TORCHLIFT_HASH TORCHLIFT_RESULT TORCHLIFT_COMMAND",
}
CASES = [(script, name) for script, names in NEEDS.items() for name in names.split()]


def test_every_script_that_needs_variables_is_in_the_table() -> None:
    assert {path.stem for path in SCRIPTS} == set(NEEDS)


@pytest.mark.parametrize(("script", "name"), CASES, ids=lambda value: str(value))
def test_a_missing_variable_is_named_before_anything_is_done(bench: Workbench, script: str, name: str) -> None:
    for program in ("aws", "docker", "mkdir"):
        bench.program(program, 'echo "$0" "$@"')
    present = {other: "a/b" for other in NEEDS[script].split() if other != name}
    bench.environment = {key: value for key, value in bench.environment.items() if key != name}
    done = bench.run(f"scripts/{script}.sh", "save", **present)
    assert done.returncode != 0
    assert f"{name}: parameter null or not set" in done.stderr
    assert done.stdout == ""
    assert not Path(bench.work).exists()
