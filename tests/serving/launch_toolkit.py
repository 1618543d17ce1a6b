"""Run the SageMaker PyTorch toolkit's own entry point, on loopback and out of the way of other servers.

Started with the TorchServe environment's Python and these variables: SAGEMAKER_BASE_DIR (holds model/),
SERVE_SCRATCH (a private folder with a short path), SERVE_PORTS (five free ports, comma-separated). What
differs from a container is only where things are put: addresses, the property file, the temporary folder.
"""

import ctypes
import os
import sys
from pathlib import Path

scratch = Path(os.environ["SERVE_SCRATCH"])
ports = os.environ["SERVE_PORTS"].split(",")
os.chdir(scratch)
for name in ("TEMP", "TMPDIR", "LOG_LOCATION", "METRICS_LOCATION"):
    os.environ[name] = str(scratch)
# The toolkit writes 0.0.0.0 for one address and leaves the others at fixed ports. Its property file has
# enable_envvars_config=true, so that TorchServe lets these win.
os.environ["SAGEMAKER_BIND_TO_PORT"] = ports[0]
os.environ["TS_INFERENCE_ADDRESS"] = os.environ["TS_MANAGEMENT_ADDRESS"] = f"http://127.0.0.1:{ports[0]}"
os.environ["TS_METRICS_ADDRESS"] = f"http://127.0.0.1:{ports[1]}"
os.environ["TS_GRPC_INFERENCE_PORT"], os.environ["TS_GRPC_MANAGEMENT_PORT"] = ports[2], ports[3]
os.environ["TS_INITIAL_WORKER_PORT"] = ports[4]

# torchserve's command exits and leaves Java behind: as a subreaper this process stays its parent.
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)

import psutil  # noqa: E402
from retrying import retry  # noqa: E402
from sagemaker_pytorch_serving_container import serving, torchserve  # noqa: E402


@retry(stop_max_delay=10_000, wait_fixed=100)
def own_java() -> psutil.Process:
    """The Java process among our own: the toolkit's search refuses to start beside another TorchServe."""
    for process in psutil.Process().children(recursive=True):
        if torchserve.TS_NAMESPACE in process.cmdline():
            return process
    raise LookupError("no Java process yet")


torchserve.TS_CONFIG_FILE = str(scratch / "ts.properties")
torchserve.MODEL_STORE = str(scratch / "models")
torchserve._retrieve_ts_server_process = own_java
serving.main()
sys.exit(0)
