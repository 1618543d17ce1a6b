"""Deterministic staging: the same files give the same asset on every machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path

REPO_ROOT = Path(__file__).resolve().parents[2]

# What a checkout collects by being used. It says nothing about the code, so it must never reach a hash.
NEVER_STAGED = (
    "__pycache__",
    "*.pyc",
    "*.pyo",
    ".DS_Store",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".ipynb_checkpoints",
    "*.swp",
    "*~",
)


def collect(*, root: Path, paths: Iterable[str], exclude: Iterable[str] = ()) -> dict[str, Path]:
    """Return {POSIX path relative to ``root``: file} for every file under ``paths``, sorted.

    :param paths: files or folders relative to ``root``
    :param exclude: more patterns; each is matched against every part of a path and against the whole path
    :raises ValueError: a path is missing, leaves ``root``, holds no file, or is a symbolic link
    """
    patterns = (*NEVER_STAGED, *exclude)
    found: dict[str, Path] = {}
    for path in paths:
        start = root / path
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise ValueError(f"'{path}' must be a path below the repository")
        if not start.exists():
            raise ValueError(f"'{path}' does not exist")
        candidates = [start] if start.is_file() else sorted(start.rglob("*"))
        kept = 0
        for file in candidates:
            relative = file.relative_to(root)
            if _excluded(relative, patterns) or file.is_dir():
                continue
            if file.is_symlink():
                raise ValueError(f"'{relative.as_posix()}' is a symbolic link: its content could change unseen")
            found[relative.as_posix()] = file
            kept += 1
        if not kept:
            raise ValueError(f"'{path}' holds no file to stage")
    return dict(sorted(found.items()))


def copy_files(*, files: Mapping[str, Path], target: Path) -> None:
    """Copy ``files`` ({POSIX path below ``target``: file}) with modes that do not depend on the checkout."""
    for name, source in files.items():
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, destination)
        destination.chmod(0o755 if name.endswith(".sh") else 0o644)


def _excluded(relative: Path, patterns: Iterable[str]) -> bool:
    whole = relative.as_posix()
    return any(
        fnmatch(whole, pattern) or any(fnmatch(part, pattern) for part in relative.parts) for pattern in patterns
    )
