"""buildah and podman without a daemon, in a folder of their own: the machine's containers and images stay as they are.

Made for sandboxes too, where default limits cannot be raised and cgroups are hybrid: builds run in a chroot, and
containers under runc, with the host's network.
"""

from __future__ import annotations

import configparser
import hashlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlparse

TOOLS = ("buildah", "podman", "runc", "skopeo", "mmdebstrap", "docker-registry")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
CLEANING_UP_SECONDS = 20.0
CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""Debian's name for it, inside the images."""


class EngineError(RuntimeError):
    """A container tool failed; the message has the end of what it said."""


def missing_tools() -> list[str]:
    """What has to be installed (Debian's package names, which are the programs' names too)."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


class Engine:
    """Everything that the tools keep is below `folder`, which `remove_folder` deletes.

    :param bases: another engine's folder, whose images are seen too, and never changed
    """

    def __init__(self, folder: Path, *, bases: Path | None = None) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        (self.folder / "containers.conf").write_text(
            f"""[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile={hard}:{hard}", "nproc=4096:4096"]
netns = "host"
cgroupns = "host"
"""
        )
        (self.folder / "storage.conf").write_text(
            f"""[storage]
driver = "overlay"
graphroot = "{self.folder}/images"
runroot = "{self.folder}/running"
[storage.options]
additionalimagestores = [{f'"{bases.absolute()}/images"' if bases else ""}]
"""
        )

    def environment(self) -> dict[str, str]:
        """Variables with which buildah and podman keep to the folder."""
        return {
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "XDG_RUNTIME_DIR": str(self.folder),
        }

    def call(self, *command: str, base: Mapping[str, str], timeout: float = 900) -> str:
        """Run a tool in the environment `base`; what it printed. Raises EngineError."""
        done = subprocess.run(
            command,
            env={**base, **self.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip()[-2000:]
            raise EngineError(f"{' '.join(command[:3])} …: exit {done.returncode}:\n{said}")
        return done.stdout

    def exists(self, image: str, *, base: Mapping[str, str]) -> bool:
        """Whether the image is there."""
        done = subprocess.run(
            ["buildah", "inspect", "--type", "image", image],
            env={**base, **self.environment()},
            capture_output=True,
        )
        return done.returncode == 0

    def build(
        self,
        context: Path,
        *,
        dockerfile: Path,
        tag: str,
        build_args: Mapping[str, str],
        base: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> None:
        """Build an image for this machine's own architecture, in Docker's format. Raises EngineError."""
        arguments = [f"--build-arg={name}={value}" for name, value in sorted(build_args.items())]
        self.call(
            *("buildah", "build", "--format", "docker", "--network", "host", "--pull-never", "--layers"),
            *(argument for mount in pip_mounts(self.folder) for argument in ("--volume", mount)),
            *arguments,
            *options,
            *("--file", str(dockerfile), "--tag", tag, str(context)),
            base=base,
            timeout=1800,
        )


def control_group(folder: Path) -> str:
    """The parent of the control groups of an engine's containers, of which podman leaves empty ones."""
    return f"torchlift-{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]}"


def control_groups(folder: Path) -> list[Path]:
    """Where the control group is: one folder with version 2, one for each controller with version 1."""
    name = control_group(folder)
    return sorted({path.resolve() for pattern in (name, f"*/{name}") for path in CONTROL_GROUPS.glob(pattern)})


def remove_folder(folder: Path) -> None:
    """Delete a folder with engines in it, whose containers have ended, or one that is not there.

    What is mounted below it goes first: killed tools leave mounts, and deleting must not reach through them. When a
    container has ended, podman still cleans up behind it for a moment, and may write what was just deleted.
    """
    deadline = time.monotonic() + CLEANING_UP_SECONDS
    while True:
        try:
            return _remove(folder)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _remove(folder: Path) -> None:
    # An engine of its own has each host, one level below.
    for written in [*folder.glob("*/containers.conf"), *folder.glob("*/*/containers.conf")]:
        for group in control_groups(written.parent):
            for path in sorted([group, *(path for path in group.rglob("*") if path.is_dir())], reverse=True):
                path.rmdir()
    entries = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [entry.split()[4].encode().decode("unicode_escape") for entry in entries]
    # The last mounted first; one that is busy still leaves the folder at once.
    for point in reversed([point for point in points if Path(point).is_relative_to(folder.absolute())]):
        subprocess.run(["umount", "--lazy", point], check=True, capture_output=True)
    if folder.exists():
        shutil.rmtree(folder)


def pip_mounts(folder: Path) -> list[str]:
    """The host's own pip settings for `pip` in a build: an index, certificates or wheels that only the host knows.

    Mounted, so nothing of them is in the image. Values of `buildah build --volume`.
    """
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        settings[name.split(".")[-1]] = value.strip().strip("'\"")
    mounts = {}
    for name, value in settings.items():
        for word in value.split():
            path = Path(urlparse(word).path if word.startswith("file:") else word)
            if "index-url" in name:
                path = path.parent  # its pages point to files beside them
            if path.is_absolute() and path != Path("/") and path.exists():
                mounts[str(path)] = str(path)
        if name == "cert" and Path(value).exists():
            mounts[value] = CA_BUNDLE
    written = configparser.RawConfigParser()
    written["global"] = {name: value for name, value in settings.items() if name != "cert"}
    if "cert" in settings:
        written["global"]["cert"] = CA_BUNDLE
    target = folder / "pip.conf"
    with target.open("w") as stream:
        written.write(stream)
    return [f"{target}:/etc/pip.conf:ro", *(f"{source}:{inside}:ro" for source, inside in sorted(mounts.items()))]
