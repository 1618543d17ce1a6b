"""The demo's deployment without what this machine cannot serve."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from stand_in.executor import triton


def deployable(deployment: str, *, root: Path, console: Console) -> str:
    """The deployment itself, or the path of a copy without text encoding where there is no Triton; says so then."""
    if list(triton.environment_folder(root).glob("lib/python3.*/site-packages/pytriton")):
        return deployment
    console.print("  Text encoding is left out: Triton's wheel needs Python 3.11 or 3.12.", highlight=False)
    settings = (root / "deployments" / f"{deployment}.toml").read_text(encoding="utf-8")
    copy = root / "build" / "demo" / f"{deployment}.toml"
    copy.write_text(without_section(settings, "text_encoding"), encoding="utf-8")
    return str(copy)


def without_section(text: str, section: str) -> str:
    """TOML without a section and those below it; comments before the next section go, too."""
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            inside = line.startswith((f"[{section}]", f"[{section}."))
        if not inside:
            kept.append(line)
    return "".join(kept)
