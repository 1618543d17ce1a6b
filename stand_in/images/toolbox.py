"""A folder with `docker` in it, to put first on PATH."""

from __future__ import annotations

import sys
from pathlib import Path

REPO_ROOT = Path(__file__).resolve().parents[2]


def write_docker(folder: Path, *, engine: Path, registry: str, bases: Path | None = None) -> Path:
    """Write `docker`: stand_in.images.docker under this Python, with its variables; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "docker"
    more = "" if bases is None else f' TORCHLIFT_BASES="{bases}"'
    program.write_text(
        f'#!/bin/sh\n[ "$1" != buildx ] || exit 1 # the classic builder makes Docker\'s format\n'
        f'export TORCHLIFT_ENGINE="{engine}" TORCHLIFT_REGISTRY="{registry}"{more}\n'
        f'PYTHONPATH="{REPO_ROOT}" exec "{sys.executable}" -m stand_in.images.docker "$@"\n'
    )
    program.chmod(0o755)
    return folder
