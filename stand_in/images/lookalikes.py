"""Look-alikes of the Deep Learning Containers: Debian, Python, and what our Dockerfiles rely on of each base.

`bases/<repository>/Dockerfile` makes one from a Debian root that is made here once. What they fake is listed in
docs/images.md. They are for this machine's architecture, whatever the real base is for.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from stand_in.images.engine import Engine

BASES = Path(__file__).with_name("bases")
REPO_ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "curl", "g++", "gcc", "libc6-dev", "openjdk-17-jre-headless", "python3", "python3-dev",
            "python3-pip", "python3-venv")  # fmt: skip
SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))


def known() -> list[str]:
    """Repositories of base images that have a look-alike."""
    return sorted(path.parent.name for path in BASES.glob("*/Dockerfile"))


def look_alike(engine: Engine, repository: str, *, base: Mapping[str, str]) -> str:
    """The look-alike's local name, made when it is not there, by one process at a time.

    Raises KeyError for a base image that has none, EngineError when it cannot be made.
    """
    if repository not in known():
        raise KeyError(f"no look-alike of '{repository}' in {BASES.name}/ (there are {', '.join(known())})")
    content = made_of(BASES / repository / "Dockerfile")
    with (engine.folder / "bases.lock").open("w") as lock:
        # Whoever waits finds the layers that its own look-alike shares with this one.
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = debian(engine, base=base)
        tag = f"localhost/base-{repository}:{hashlib.sha256(root.encode() + content).hexdigest()[:16]}"
        if not engine.exists(tag, base=base):
            engine.build(
                REPO_ROOT, dockerfile=BASES / repository / "Dockerfile", tag=tag, build_args={"DEBIAN": root}, base=base
            )
    return tag


def made_of(dockerfile: Path) -> bytes:
    """The Dockerfile and all files that it copies from the repository, one after the other."""
    text = dockerfile.read_text().replace("\\\n", " ")
    copied = [
        REPO_ROOT / word
        for instruction in re.findall(r"^COPY (.+)$", text, re.MULTILINE)
        for word in instruction.split()[:-1]
        if not word.startswith("--")
    ]
    return b"".join(path.read_bytes() for path in [dockerfile, *copied])


def debian(engine: Engine, *, base: Mapping[str, str]) -> str:
    """The local name of the Debian root, made from this machine's own package sources when it is not there."""
    tag = f"localhost/debian:{hashlib.sha256(f'{SUITE} {PACKAGES}'.encode()).hexdigest()[:16]}"
    if engine.exists(tag, base=base):
        return tag
    sources = [str(path) for path in SOURCES[:1] if path.exists()]
    archive = engine.folder / "debian.tar"
    engine.call(
        # A root that a power failure spoils is made again: no need to write each file through.
        *(
            "mmdebstrap",
            "--variant=minbase",
            "--dpkgopt=force-unsafe-io",
            f"--include={','.join(PACKAGES)}",
            SUITE,
            str(archive),
            *sources,
        ),
        base=base,
        timeout=900,
    )
    engine.call("podman", "import", str(archive), tag, base=base)
    archive.unlink()
    return tag
