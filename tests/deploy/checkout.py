"""A copy of the checkout whose files a test may change."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def copy_checkout(root: Path, target: Path) -> Path:
    """Copy what git knows or would add; the installed tools are linked."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = root / name
        if name and source.is_file() and not source.is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    for tools in (".venv", ".venvs", "node_modules"):
        (target / tools).symlink_to(root / tools)
    return target
