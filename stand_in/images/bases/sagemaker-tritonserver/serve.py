#!/usr/bin/env python3
"""What the container does with `serve` (`docker/sagemaker/serve` of triton-inference-server/server)."""

import os
import sys
from pathlib import Path

sys.path.insert(0, "/opt/stand-in")

from stand_in.executor.servers import CannotServe
from stand_in.executor.triton import DEFAULT_MODEL, default_model, options

PORTS = {"SAGEMAKER_BIND_TO_PORT": "--sagemaker-port", "SAGEMAKER_SAFE_PORT_RANGE": "--sagemaker-safe-port-range"}

multi_model = os.environ.get("SAGEMAKER_MULTI_MODEL") == "true"
repository = Path("/tmp/sagemaker" if multi_model else "/opt/ml/model")
arguments = [f"{option}={os.environ[name]}" for name, option in PORTS.items() if name in os.environ]
if multi_model:
    # Each model is a repository of its own; this one only has to be there.
    repository.mkdir(exist_ok=True)
else:
    try:
        os.environ[DEFAULT_MODEL] = default_model(repository, os.environ)
    except CannotServe as error:
        sys.exit(f"ERROR: {error}")
    arguments.append(f"--load-model={os.environ[DEFAULT_MODEL]}")
ping = os.environ.get("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", "live" if multi_model else "ready")
os.environ["SAGEMAKER_TRITON_PING_MODE"] = ping
server = [
    *("tritonserver", "--allow-sagemaker=true", "--allow-grpc=false", "--allow-http=false", "--allow-metrics=false"),
    *(
        "--model-control-mode=explicit",
        f"--model-repository={repository}",
        "--backend-directory=/opt/tritonserver/backends",
    ),
]
os.execvp(server[0], [*server, *options(os.environ), *arguments])
