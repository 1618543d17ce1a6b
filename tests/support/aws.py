"""A moto server on loopback, and the environment in which everything talks to it and to nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

REGION = "us-west-2"
ACCOUNT = "123456789012"


@contextmanager
def moto_server() -> Iterator[str]:
    """Run moto's server on a free loopback port; yield its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def aws_environment(endpoint: str) -> dict[str, str]:
    """Return the variables that turn every AWS client towards ``endpoint``, and no variable that turns it elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TORCHLIFT_"))}
    return {
        **kept,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
