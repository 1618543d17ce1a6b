"""`python app.py`: mistakes are told, all at once, in words, and leave nothing behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from settings import REPO_ROOT
from tests.stacks.synthesis import edited, in_subprocess


def refused(deployment: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the app, which must fail in order."""
    done = in_subprocess(deployment, folder / "cdk.out")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (folder / "cdk.out" / "manifest.json").exists()
    return done


def test_unknown_deployment(tmp_path: Path) -> None:
    done = refused("prd", tmp_path)
    known = ", ".join(sorted(path.stem for path in (REPO_ROOT / "deployments").glob("*.toml")))
    assert done.stderr == (
        "deployments/prd.toml has 1 problem:\n"
        "  - deployment: given 'prd'. There is no file deployments/prd.toml. "
        f"Right would be: prod; there are {known}\n"
    )
    assert not list((tmp_path / "cdk.out").iterdir())


def test_all_problems_at_once(tmp_path: Path) -> None:
    changes: dict[str, object] = {
        "deployment.region": "us-west-3",
        "training.epochs": -1,
        "training.instance_typ": "p4d.24xlarge",
        "sentiment.endpoint.instance_type": "ml.c7g.huge",
        "sentiment.endpoint.min_instances": 5,
    }
    done = refused(str(edited("dev", changes, tmp_path)), tmp_path)
    assert "has 5 problems:" in done.stderr
    for key in changes:
        assert done.stderr.count(f"  - {key.replace('min_', 'max_')}: ") == 1
    assert not list((tmp_path / "cdk.out").iterdir())


@pytest.mark.parametrize("text", ["", "schema_version = 1\n[deployment", "\x00", "[deployment]\nname = 1"])
def test_files_that_are_no_settings(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    done = refused(str(path), tmp_path)
    assert " problem" in done.stderr
    assert not list((tmp_path / "cdk.out").iterdir())


def test_a_folder_that_cannot_be_bundled(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.txt").symlink_to("/etc/hostname")
    done = refused(str(edited("dev", {"training.data": str(data)}, tmp_path)), tmp_path)
    assert "training.data" in done.stderr
    assert "symbolic link" in done.stderr
