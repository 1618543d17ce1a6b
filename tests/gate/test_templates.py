"""cfn-lint and checkov over every synthesized template."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from settings import REPO_ROOT
from tests.stacks.synthesis import Synthesized

CHECKOV = REPO_ROOT / ".venvs" / "checkov" / "bin" / "checkov"
CONFIGURATION = REPO_ROOT / ".checkov.yaml"

IGNORED = {
    "W3005": "a dependency on a role means the role and its policy; the half that is inferred anyway does no harm",
    "W3010": "zones come from the settings: capacity is bought by zone, and a look-up needs credentials at synth",
    "W6001": "the weights' address begins with the bucket's name, which is Foundation's, and is an output by contract",
}
"""cfn-lint's warnings that are not about mistakes here."""


def templates(deployments: dict[str, Synthesized]) -> list[str]:
    return [str(path) for made in deployments.values() for path in sorted(made.folder.glob("*.template.json"))]


@pytest.fixture(scope="module")
def linted(deployments: dict[str, Synthesized]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), "--format", "json", "--", *templates(deployments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_cfn_lint(linted: list[dict[str, Any]]) -> None:
    left = [
        f"{Path(item['Filename']).name}: {item['Rule']['Id']} {item['Message']}"
        for item in linted
        if item["Rule"]["Id"] not in IGNORED
    ]
    assert left == []


@pytest.mark.parametrize("rule", IGNORED)
def test_what_cfn_lint_is_not_asked_about_is_still_there(rule: str, linted: list[dict[str, Any]]) -> None:
    assert rule in {item["Rule"]["Id"] for item in linted}


@pytest.fixture(scope="module")
def checked(deployments: dict[str, Synthesized], tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The ids of all findings, without this repository's configuration."""
    # In a folder without a configuration: checkov reads the one of the folder that it runs in.
    done = checkov(deployments, tmp_path_factory.mktemp("checkov"), "--framework", "cloudformation")
    document = json.loads(done.stdout)
    reports = document if isinstance(document, list) else [document]
    assert all(report["summary"]["parsing_errors"] == 0 for report in reports)
    assert sum(report["summary"]["passed"] for report in reports) > 100
    return {finding["check_id"] for report in reports for finding in report["results"]["failed_checks"]}


def checkov(deployments: dict[str, Synthesized], folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    if not CHECKOV.exists():
        pytest.skip("checkov is not installed: make setup")
    done = subprocess.run(
        [str(CHECKOV), "--file", *templates(deployments), "--skip-download", "--output", "json", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.stdout, done.stderr
    return done


def skipped_checks() -> list[str]:
    return re.findall(r"^ +- (CKV\w+)$", CONFIGURATION.read_text(), re.M)


def test_checkov(deployments: dict[str, Synthesized]) -> None:
    done = checkov(deployments, REPO_ROOT)
    assert done.returncode == 0, done.stdout


def test_what_checkov_is_not_asked_about_is_still_there(checked: set[str]) -> None:
    assert set(skipped_checks()) == checked


def test_what_checkov_is_not_asked_about_has_a_reason() -> None:
    lines = [line.strip() for line in CONFIGURATION.read_text().splitlines()]
    reasons = [before for before, line in itertools.pairwise(lines) if line.startswith("- CKV")]
    assert len(reasons) == len(skipped_checks())
    assert all(reason.startswith("# ") for reason in reasons)
