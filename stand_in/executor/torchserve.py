"""The real SageMaker PyTorch toolkit and TorchServe around a model archive, as the inference container runs them."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from pathlib import Path

from stand_in.executor import model_data
from stand_in.executor.java import java_home
from stand_in.executor.processes import spawn
from stand_in.executor.servers import CannotServe, Container, ModelServer, free_ports
from stand_in.executor.site import Site

LAUNCHER = Path(__file__).with_name("torchserve_launcher.py")
LONGEST_SCRATCH = 70
"""The workers' Unix sockets lie in the scratch folder, and their names may have 107 characters at most."""
HOPELESS = ("Backend worker process died", 3)
"""TorchServe restarts a worker for ever; when it has died this often before any answer, the model cannot be loaded."""


class TorchServe(ModelServer):
    """A running TorchServe; `stop()` also removes its private folder."""

    scratch: Path

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.scratch, ignore_errors=True)


def python(repo_root: Path) -> Path:
    """The Python of the TorchServe environment, which `make` builds beside the main one."""
    given = os.environ.get("TORCHLIFT_TORCHSERVE_PYTHON")
    return Path(given) if given else repo_root / ".venvs" / "torchserve" / "bin" / "python"


def start(site: Site, *, region: str, endpoint: str, container: Container) -> TorchServe:
    """Fetch and unpack the model archive and start the server; it is not ready yet. Raises CannotServe."""
    interpreter = python(site.repo_root)
    if not interpreter.exists():
        raise CannotServe(f"there is no {interpreter}: `make` builds the TorchServe environment")
    scratch = _scratch(site)
    try:
        model = scratch / "base" / "model"
        model_data.fetch(site, region, container, model)
        return _start(site, interpreter, scratch, region=region, endpoint=endpoint, container=container)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _start(
    site: Site, interpreter: Path, scratch: Path, *, region: str, endpoint: str, container: Container
) -> TorchServe:
    ports = free_ports(5)
    base = str(scratch / "base")
    home = java_home()
    environment = {
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "SAGEMAKER_REGION": region,
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: value.replace("/opt/ml", base) for name, value in container.environment.items()},
        "PATH": os.pathsep.join([str(interpreter.parent), str(home / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]),
        "JAVA_HOME": str(home),
        "HOME": str(scratch),
        "SAGEMAKER_BASE_DIR": base,
        "TORCHLIFT_SCRATCH": str(scratch),
        "TORCHLIFT_PORTS": ",".join(str(port) for port in ports),
    }
    log = site.log_path(f"endpoint-{endpoint}")
    child = spawn([str(interpreter), str(LAUNCHER)], env=environment, cwd=scratch, log=log)
    server = TorchServe(
        child=child, program="TorchServe", version=_version(interpreter), port=ports[0], container=container
    )
    server.scratch = scratch
    return server


def _scratch(site: Site) -> Path:
    parent = site.state_dir / "servers"
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix="ts-"))
    if len(str(folder)) <= LONGEST_SCRATCH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="ts-"))


def _version(interpreter: Path) -> str:
    libraries = [str(path) for path in (interpreter.parent.parent / "lib").glob("python*/site-packages")]
    found = next(iter(importlib.metadata.distributions(name="torchserve", path=libraries)), None)
    return found.version if found else "unknown"
