"""Whether this machine can build and run images, and what has to be there before it does.

`python -m stand_in.images.readiness` tries it. It ends with 0 when containers run here, with 3 when the machine forbids
them, and with 1 when something is missing or broken; but for 0 it says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from stand_in.images.engine import Engine, EngineError, control_group, missing_tools, remove_folder
from stand_in.images.lookalikes import look_alike

BASES = (
    *("pytorch-training", "pytorch-inference-arm64", "pytorch-inference-neuronx"),
    "sagemaker-tritonserver",
)
"""Base images of what images mode builds."""
KERNEL = {
    "new namespaces": "true",
    "a tmpfs in them": "mount -t tmpfs tmpfs /mnt",
    "a /proc in them": "mount -t proc proc /proc",
    "an overlay in them": "mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir lower upper work root && "
    "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root",
}
"""What builds and containers ask of the kernel: a name, and what is tried in namespaces of its own."""
REFUSALS = ("operation not permitted", "permission denied", "read-only file system", "function not implemented",
            "cgroup mountpoint does not exist")  # fmt: skip
"""How a kernel's refusal reads in what the tools say; anything else is a fault, of the tools or of ours."""
SECONDS = 120
FORBIDDEN = 3


class CannotRunImages(RuntimeError):
    """This machine cannot build and run images; the message says what it lacks."""


class MachineForbids(CannotRunImages):
    """All tools are there, and the kernel refuses what containers need; the message is one sentence."""


def require_tools() -> None:
    """Raise CannotRunImages unless what builds and runs images is installed, and this is root."""
    lacks = [f"{tool} (the Debian package)" for tool in missing_tools()]
    if os.geteuid() != 0:
        lacks.insert(0, f"root (this is user {os.geteuid()})")
    if lacks:
        raise CannotRunImages(f"images mode builds and runs containers, but here is no {', no '.join(lacks)}")


def require() -> None:
    """Raise CannotRunImages unless this machine can build and run images, and MachineForbids where the kernel refuses.

    It runs a container, which takes a second or two.
    """
    require_tools()
    for what, command in KERNEL.items():
        _try_in_namespaces(what, command)
    _try_a_container()


def _try_in_namespaces(what: str, command: str) -> None:
    namespaces = ("--mount", "--pid", "--net", "--ipc", "--uts", "--fork")
    try:
        done = subprocess.run(
            ["unshare", *namespaces, "sh", "-ec", command], capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRunImages(f"whether this machine can run containers is not known: {error}") from error
    if done.returncode:
        raise MachineForbids(f"this machine forbids containers: {what} cannot be made ({_last(done.stderr)})")


def _try_a_container() -> None:
    """A container of an image without files, which sees this machine's /usr."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = folder / "root.tar"
        with tarfile.open(archive, "w") as tar:
            for link in ("bin", "lib", "lib64"):
                if Path("/", link).is_symlink():
                    entry = tarfile.TarInfo(link)
                    entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{link}"
                    tar.addfile(entry)
        engine = Engine(folder / "engine")
        group = f"--cgroup-parent=/{control_group(engine.folder)}"
        try:
            engine.call("podman", "import", str(archive), "localhost/probe", base=os.environ, timeout=SECONDS)
            engine.call(
                *("podman", "run", "--rm", "--pull=never", "--read-only", "--tmpfs", "/tmp", "--network", "none"),
                *(group, "--volume", "/usr:/usr:ro", "localhost/probe", "/usr/bin/true"),
                base=os.environ,
                timeout=SECONDS,
            )
        except (EngineError, OSError, subprocess.TimeoutExpired) as error:
            if any(refusal in str(error).lower() for refusal in REFUSALS):
                raise MachineForbids(f"this machine forbids containers: podman says '{_last(str(error))}'") from error
            raise CannotRunImages(f"podman cannot run a container here: {error}") from error
        finally:
            remove_folder(folder / "engine")


def _last(said: str) -> str:
    return (said.strip().splitlines() or ["it says nothing"])[-1]


def lasting(root: Path) -> Path:
    """The folder of the engine that keeps look-alikes from one run to the next, in this checkout."""
    return root / "build" / "images"


def state_folder(state_dir: Path) -> Path:
    """What images mode keeps of one stand-in."""
    return state_dir / "images"


def prepare(root: Path) -> None:
    """Make the look-alikes that are not there yet, which takes minutes. Raises CannotRunImages, EngineError."""
    require()
    engine = Engine(lasting(root))
    for repository in BASES:
        look_alike(engine, repository, base=os.environ)


def main() -> int:
    """0, FORBIDDEN, or 1."""
    try:
        require()
    except CannotRunImages as error:
        print(error, file=sys.stderr)
        return FORBIDDEN if isinstance(error, MachineForbids) else 1
    print("containers run on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
