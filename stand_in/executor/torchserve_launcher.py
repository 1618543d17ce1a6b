"""Runs the SageMaker PyTorch toolkit's own entry point, on loopback and out of the way of other servers.

Run by `torchserve.py` with the TorchServe environment's Python, never imported. Variables: SAGEMAKER_BASE_DIR (holds
model/), TORCHLIFT_SCRATCH (a private folder with a short path), TORCHLIFT_PORTS (five free ports, comma-separated).
What differs from a container is only where things are put: addresses, the property file, the temporary folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Turn the toolkit to its private places and call its main function, which blocks while the server lives."""
    scratch = Path(os.environ.pop("TORCHLIFT_SCRATCH"))
    ports = os.environ.pop("TORCHLIFT_PORTS").split(",")
    os.chdir(scratch)
    for name in ("TEMP", "TMPDIR", "LOG_LOCATION", "METRICS_LOCATION"):
        os.environ[name] = str(scratch)
    # The toolkit writes 0.0.0.0 into its property file and leaves the rest at fixed ports. The file also says
    # enable_envvars_config=true, so TorchServe lets these win.
    os.environ["SAGEMAKER_BIND_TO_PORT"] = ports[0]
    os.environ["TS_INFERENCE_ADDRESS"] = os.environ["TS_MANAGEMENT_ADDRESS"] = f"http://127.0.0.1:{ports[0]}"
    os.environ["TS_METRICS_ADDRESS"] = f"http://127.0.0.1:{ports[1]}"
    os.environ["TS_GRPC_INFERENCE_PORT"], os.environ["TS_GRPC_MANAGEMENT_PORT"] = ports[2], ports[3]
    os.environ["TS_INITIAL_WORKER_PORT"] = ports[4]
    # The torchserve command exits and leaves Java behind: as a subreaper this process becomes its parent.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    from retrying import retry  # type: ignore[import-not-found]  # only in the TorchServe environment
    from sagemaker_pytorch_serving_container import serving, torchserve  # type: ignore[import-not-found]

    @retry(stop_max_delay=60_000, wait_fixed=100)  # type: ignore[untyped-decorator]
    def own_java() -> Any:
        """The Java among our own processes: the toolkit's search refuses to start beside another TorchServe."""
        return descendant(torchserve.TS_NAMESPACE)

    torchserve.TS_CONFIG_FILE = str(scratch / "ts.properties")
    torchserve.MODEL_STORE = str(scratch / "models")
    torchserve._retrieve_ts_server_process = own_java
    serving.main()


def descendant(argument: str) -> Any:
    """The living descendant of this process (psutil.Process) with `argument` on its command line.

    Raises LookupError when there is none.
    """
    import psutil

    for process in psutil.Process().children(recursive=True):
        # The torchserve command has ended and stays a zombie, since the toolkit never waits for it.
        with contextlib.suppress(psutil.NoSuchProcess):
            if argument in process.cmdline():
                return process
    raise LookupError(f"no process with {argument} yet")


if __name__ == "__main__":
    main()
    sys.exit(0)
