"""What a stand-in in images mode must not leave on the machine."""

from __future__ import annotations

from pathlib import Path

import psutil

from stand_in.images.engine import control_groups
from stand_in.images.readiness import state_folder


def require_none(state: Path) -> None:
    """No control group, folder, mount or process of the stand-in with this folder, which has ended."""
    assert control_groups(state_folder(state) / "engine") == []
    assert not state_folder(state).exists()
    assert [path for name in ("jobs", "hosts", "servers") for path in (state / name).glob("*")] == []
    assert str(state) not in Path("/proc/self/mountinfo").read_text()
    # A process that ends meanwhile has no command any more.
    commands = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    assert [command for command in commands if str(state) in command] == []
