"""The real Triton server on the CPU with its SageMaker front end, started as NVIDIA's container starts it.

Source of the options: `docker/sagemaker/serve` of triton-inference-server/server, which `docker run IMAGE serve`
runs. The wheel nvidia-pytriton brings the server with its Python backend only: no TensorRT, no ONNX Runtime.
"""

from __future__ import annotations

import ctypes.util
import http.client
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from stand_in.executor.processes import Child, spawn, tail
from stand_in.executor.servers import Answer, CannotServe, NotReady, free_ports, request

LOOPBACK = Path(__file__).with_name("loopback.py")
START_SECONDS = 60.0
LOAD_SECONDS = 300.0
TARGET = "X-Amzn-SageMaker-Target-Model"
DEFAULT_MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
# Variable of the container → (option, the script's default; None: not given then).
OPTIONS = {
    "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING": ("--model-namespacing={}", "true"),
    "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT": ("--buffer-manager-thread-count={}", None),
    "SAGEMAKER_TRITON_THREAD_COUNT": ("--sagemaker-thread-count={}", None),
    "SAGEMAKER_TRITON_LOG_VERBOSE": ("--log-verbose={}", "true"),
    "SAGEMAKER_TRITON_LOG_INFO": ("--log-info={}", None),
    "SAGEMAKER_TRITON_LOG_WARNING": ("--log-warning={}", None),
    "SAGEMAKER_TRITON_LOG_ERROR": ("--log-error={}", None),
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": ("--backend-config=python,shm-default-byte-size={}", "16777216"),
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": ("--backend-config=python,shm-growth-byte-size={}", "1048576"),
}


class Triton:
    """A running server; in multi-model mode models come and go through its SageMaker front end."""

    program = "Triton"

    def __init__(self, *, child: Child, port: int, http_port: int | None) -> None:
        self.child = child
        self.port = port
        self.http_port = http_port
        """Port of Triton's own HTTP front end, which the container leaves off."""

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = 60,
    ) -> Answer:
        """One request to the SageMaker front end. Raises OSError or http.client.HTTPException."""
        return request(self.port, method, path, body, headers or {}, seconds=seconds)

    def load(self, name: str, folder: Path, *, target: str) -> Answer:
        """Load the model in `folder` (one unpacked archive) as `name`, which SageMaker makes from a hash.

        `target` is the archive's name: from then on Triton knows the model by it alone.
        """
        body = json.dumps({"model_name": name, "url": str(folder)}).encode()
        headers = {"Content-Type": "application/json", TARGET: target}
        return self.request("POST", "/models", body, headers, seconds=LOAD_SECONDS)

    def invoke(self, name: str, body: bytes, headers: Mapping[str, str], *, target: str, seconds: float = 60) -> Answer:
        """One invocation of a loaded model."""
        path = f"/models/{name}/invoke"
        return self.request("POST", path, body, {**headers, TARGET: target}, seconds=seconds)

    def unload(self, name: str, *, target: str) -> Answer:
        """Unload a model; Triton answers when it is gone."""
        return self.request("DELETE", f"/models/{name}", headers={TARGET: target}, seconds=LOAD_SECONDS)

    def wait_until_ready(self, *, seconds: float = START_SECONDS, cancelled: threading.Event | None = None) -> None:
        """Block until /ping answers 200; in multi-model mode it does without any model. Raises NotReady."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.child.poll() is None:
            if cancelled is not None and cancelled.is_set():
                raise NotReady("cancelled")
            with suppress(OSError, http.client.HTTPException):
                if self.request("GET", "/ping", seconds=5).status == 200:
                    return
            time.sleep(0.1)
        raise NotReady(f"Triton did not get ready. Its log {self.child.log} ends with: {tail(self.child.log)}")

    @property
    def version(self) -> str:
        """The server's own, which it tells in its log when it is ready."""
        found = re.search(r"server_version\W+([\d.]+)", self.child.log.read_text(errors="replace"))
        return found[1] if found else "0 (not told)"

    def stop(self) -> None:
        """End the server and its models' processes."""
        self.child.stop()


def environment_folder(repo_root: Path) -> Path:
    """The virtual environment with Triton, which `make` builds beside the main one."""
    return repo_root / ".venvs" / "triton"


def start(
    *,
    venv: Path,
    scratch: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    with_http: bool = False,
    single: Path | None = None,
) -> Triton:
    """Start the server; it is not ready yet. `environment` is the container's. Raises CannotServe.

    :param scratch: an empty folder of its own
    :param with_http: also start Triton's own HTTP front end, for its statistics
    :param single: the unpacked model data of single-model mode; multi-model mode without
    """
    packages = next(iter(sorted(venv.glob("lib/python3.*/site-packages"))), None)
    if packages is None or not (packages / "pytriton").exists():
        raise CannotServe(f"there is no Triton in {venv}: `make` builds its environment")
    backends, libraries = _backend(packages, scratch), _libraries(venv, packages)
    given = dict(environment or {})
    loaded = []
    if single is None:
        # Each model is a repository of its own; this one only has to be there.
        (scratch / "none").mkdir()
    else:
        given[DEFAULT_MODEL] = default_model(single, given)
        loaded = [f"--load-model={given[DEFAULT_MODEL]}"]
    port, http_port = free_ports(2)
    web = ["--allow-http=true", "--http-address=127.0.0.1", f"--http-port={http_port}"]
    command = [
        sys.executable, str(LOOPBACK), str(packages / "pytriton" / "tritonserver" / "bin" / "tritonserver"),
        "--allow-sagemaker=true", "--allow-grpc=false", "--allow-metrics=false", "--model-control-mode=explicit",
        f"--model-repository={single or scratch / 'none'}", f"--sagemaker-port={port}",
        f"--backend-directory={backends}", *(web if with_http else ["--allow-http=false"]), *options(given), *loaded,
    ]  # fmt: skip
    variables = {
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        **given,
        # The model's process finds numpy only when its environment's Python comes first.
        "PATH": os.pathsep.join([str(venv / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]),
        "PYTHONPATH": str(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_LIBRARY_PATH": os.pathsep.join(str(folder) for folder in libraries),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        # In multi-model mode alive is enough, since no model need be loaded.
        "SAGEMAKER_TRITON_PING_MODE": given.get("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", "ready" if single else "live"),
    }
    child = spawn(command, env=variables, cwd=scratch, log=log)
    return Triton(child=child, port=port, http_port=http_port if with_http else None)


def options(environment: Mapping[str, str]) -> list[str]:
    """The server's options that the container's script makes from its variables."""
    given = [(option, environment.get(name, default)) for name, (option, default) in OPTIONS.items()]
    return [option.format(value) for option, value in given if value is not None]


def default_model(repository: Path, environment: Mapping[str, str]) -> str:
    """The model that the container's script loads in single-model mode. Raises CannotServe as the script ends."""
    if (repository / "config.pbtxt").is_file():
        raise CannotServe("incorrect directory structure: the model data must hold the model's folder, not its files")
    found = sorted(path.name for path in repository.iterdir() if path.is_dir())
    named = environment.get(DEFAULT_MODEL)
    if named and named not in found:
        raise CannotServe(f"{DEFAULT_MODEL} is '{named}': the model data has no such folder ({', '.join(found)})")
    if not named and len(found) != 1:
        raise CannotServe(f"the model data has {len(found)} folders ({', '.join(found)}): set {DEFAULT_MODEL}")
    return named or found[0]


def _backend(packages: Path, scratch: Path) -> Path:
    """A backend directory with the Python backend and the stub of this environment's Python version."""
    version = packages.parent.name.removeprefix("python")
    wheel = packages / "pytriton" / "tritonserver"
    stub = wheel / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise CannotServe(f"the Triton wheel has no Python backend for Python {version}")
    folder = scratch / "backends" / "python"
    folder.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_utils.py"):
        (folder / name).symlink_to(wheel / "backends" / "python" / name)
    shutil.copy2(stub, folder)
    return folder.parent


def _libraries(venv: Path, packages: Path) -> list[Path]:
    """Folders of the libraries that the server and the stub need. Raises CannotServe without libpython."""
    version = packages.parent.name.removeprefix("python")
    library = f"libpython{version}.so.1.0"
    home = Path((venv / "bin" / "python").resolve()).parent.parent / "lib"
    folders = [packages / "nvidia_pytriton.libs"]
    if (home / library).exists():
        return [*folders, home]
    if ctypes.util.find_library(f"python{version}") is None:
        raise CannotServe(f"Triton's Python backend needs {library}: install the package libpython{version}")
    return folders
