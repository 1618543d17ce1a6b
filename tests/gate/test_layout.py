"""Who may import whom, and that each name is ours wherever Python runs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import constructs
import pytest

from settings import REPO_ROOT

NAMES = ("app", "stacks", "torchlift", "settings", "model_code", "operations", "stand_in")
ASK = "import importlib, json, sys; print(json.dumps([importlib.import_module(n).__file__ for n in sys.argv[1:]]))"


def test_import_rules(tmp_path: Path) -> None:
    """The contracts of pyproject.toml. The tool takes packages only, and `app` is a module: see the next test."""
    rules = tomllib.loads((REPO_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    lines = ["[tool.importlinter]", f"root_packages = {json.dumps([n for n in rules['root_packages'] if n != 'app'])}"]
    for contract in rules["contracts"]:
        lines.append("[[tool.importlinter.contracts]]")
        for key, value in contract.items():
            kept = [item for item in value if item != "app"] if isinstance(value, list) else value
            lines.append(f"{key} = {json.dumps(kept)}")
    configuration = tmp_path / "pyproject.toml"
    configuration.write_text("\n".join(lines))
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", str(configuration), "--no-cache"],
        cwd=REPO_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_nothing_imports_app() -> None:
    for package in ("stacks", "constructs", "settings", "model_code", "operations"):
        for file in (REPO_ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                module = node.module if isinstance(node, ast.ImportFrom) else None
                assert "app" not in [*names, module], file


def test_handlers_need_boto3_and_the_standard_library_only() -> None:
    allowed = {*sys.stdlib_module_names, "boto3", "botocore", "torchlift"}
    for file in (REPO_ROOT / "constructs" / "torchlift" / "handlers").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
                assert not node.module.startswith("torchlift") or node.module.startswith("torchlift.handlers")
            assert {name.split(".")[0] for name in names} <= allowed, file


def test_our_names_are_ours_from_a_foreign_folder(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, *NAMES],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    for name, file in zip(NAMES, json.loads(done.stdout), strict=True):
        assert Path(file).is_relative_to(REPO_ROOT), name


@pytest.mark.parametrize("folder", [REPO_ROOT, REPO_ROOT / "tests", REPO_ROOT / "constructs"])
def test_constructs_is_the_package_of_that_name(folder: Path) -> None:
    """Our folder of that name must not stand in its way: the CDK imports it."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, "constructs", "aws_cdk"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "site-packages" in json.loads(done.stdout)[0]


def test_constructs_is_the_package_under_pytest_too() -> None:
    assert "site-packages" in str(constructs.__file__)
    assert not (REPO_ROOT / "constructs" / "__init__.py").exists()


def test_constructs_is_the_package_under_the_app(tmp_path: Path) -> None:
    script = "import runpy, sys; sys.argv = ['app.py']; runpy.run_path('app.py', run_name='imported')\n" + (
        "import constructs; print(constructs.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPO_ROOT, capture_output=True, text=True, check=True, env=os.environ
    )
    assert "site-packages" in done.stdout


def test_shipped_code_is_light() -> None:
    """`cdk synth` needs neither torch nor moto nor anything else of the tests."""
    script = (
        "import sys, app; heavy = {'torch', 'moto', 'boto3', 'transformers', 'cdk_nag', 'stand_in'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPO_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
