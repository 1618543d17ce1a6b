"""Whatever stands in a settings file: it is loaded, or refused in words."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from settings import REPO_ROOT, Settings, SettingsError, load_settings
from tests.stacks.synthesis import toml_lines

VALID = (REPO_ROOT / "deployments" / "dev.toml").read_text()

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(["", "us-west-2", "p4d.24xlarge", "hf://a/b@c", "s3://", "10.0.0.0/8", "\u0000", "../.."]),
    st.lists(st.one_of(st.text(max_size=5), st.integers()), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


def keys(document: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in document.items():
        found.append((*prefix, key))
        if isinstance(value, dict):
            found += keys(value, (*prefix, key))
    return found


KEYS = keys(tomllib.loads(VALID))


def loads_or_refuses(path: Path) -> None:
    try:
        assert isinstance(load_settings(str(path)), Settings)
    except SettingsError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.right
            assert "Traceback" not in str(problem)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


@hypothesis_settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutations=st.lists(st.tuples(st.sampled_from(KEYS), VALUES), min_size=1, max_size=3))
def test_mutated_values(mutations: list[tuple[tuple[str, ...], Any]], folder: Path) -> None:
    document = tomllib.loads(VALID)
    for (*sections, last), value in mutations:
        table: Any = document
        for section in sections:
            table = table.get(section, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            continue
        if value is None:
            table.pop(last, None)
        else:
            table[last] = value
    path = folder / "dev.toml"
    path.write_text("\n".join(toml_lines(document)) + "\n", encoding="utf-8", errors="replace")
    loads_or_refuses(path)


@hypothesis_settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, len(VALID)), length=st.integers(0, 40), text=st.text(max_size=10))
def test_mutated_text(position: int, length: int, text: str, folder: Path) -> None:
    path = folder / "text.toml"
    mutated = VALID[:position] + text + VALID[position + length :]
    path.write_text(mutated, encoding="utf-8", errors="replace")
    loads_or_refuses(path)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"a = " + b"[" * 5000,
        b"a = " + b"9" * 5000,
        b"\xef\xbb\xbfschema_version = 1",
        b"schema_version = 2026-01-01",
        b"[deployment]\n[deployment]\n",
    ],
)
def test_odd_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_bytes(content)
    loads_or_refuses(path)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "x" * 300, "a\u0000b", "/", "dev.toml.toml"])
def test_odd_names(name: str) -> None:
    with pytest.raises(SettingsError):
        load_settings(name)


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    (tmp_path / "x.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(str(tmp_path / "x.toml"))
