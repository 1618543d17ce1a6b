"""The folder of an engine goes, even while podman still cleans up behind a container that has ended."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from stand_in.images import engine


def test_what_is_written_meanwhile_is_deleted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "engine"
    (folder / "images").mkdir(parents=True)
    deletes = shutil.rmtree
    failed = threading.Event()

    def disturbed(path: Path) -> None:
        """The first time, a file comes while the folder goes."""
        if not failed.is_set():
            failed.set()
            raise OSError(39, "Directory not empty", "images")
        deletes(path)

    monkeypatch.setattr(shutil, "rmtree", disturbed)
    engine.remove_folder(folder)
    assert failed.is_set() and not folder.exists()


def test_what_cannot_be_deleted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()

    def refuses(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuses)
    monkeypatch.setattr(engine, "CLEANING_UP_SECONDS", 0.2)
    with pytest.raises(PermissionError):
        engine.remove_folder(folder)
