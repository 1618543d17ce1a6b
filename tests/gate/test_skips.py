"""A skip is a failure in CI, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPS = {
    "mark": "import pytest\n@pytest.mark.skip(reason='no tool')\ndef test_it(): ...\n",
    "call": "import pytest\ndef test_it(): pytest.skip('no tool')\n",
    "module": "import pytest\npytest.importorskip('no_such_module_at_all')\ndef test_it(): ...\n",
}


@pytest.mark.parametrize("how", sorted(SKIPS))
@pytest.mark.parametrize("ci", [True, False])
def test_a_skip_fails_in_ci_alone(tmp_path: Path, how: str, ci: bool) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPS[how] + "def test_other(): ...\n")
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "skips", "--rootdir", tmp_path, str(tmp_path)],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT / "tests")} | ({"CI": "true"} if ci else {}),
        capture_output=True,
        text=True,
    )
    assert ("In CI nothing may be skipped" in done.stdout) is ci, done.stdout
    # 5: nothing ran, when a module skips itself
    assert done.returncode in ({1, 2} if ci else {0, 5}), done.stdout
