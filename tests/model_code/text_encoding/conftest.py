"""A machine with stand-ins for trtexec and nvidia-smi."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with the stand-ins for trtexec and nvidia-smi."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "trtexec").symlink_to(Path(__file__).with_name("fake_trtexec.py"))
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho '580.95.05, NVIDIA A10G, 8.6'\n")
    (tools / "nvidia-smi").chmod(0o755)
    # Nothing else is there: the machine may have a GPU of its own.
    monkeypatch.setenv("PATH", f"{tools}:{Path(sys.executable).parent}")
    monkeypatch.setenv("CUDA_VERSION", "13.0.1")
    return tools
