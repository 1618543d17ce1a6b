"""A host in a folder: its files below a root, and recorders in the places of Docker and systemd."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stand_in.executor.servers import free_ports
from tests.scripts.conftest import REPO_ROOT, Workbench, bench, endpoint, require_sound
from tests.support.aws import ACCOUNT, REGION

__all__ = ["bench", "endpoint"]

HOST_FILES = REPO_ROOT / "hosts/inferentia"
REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
IMAGES = {
    "TORCHLIFT_SERVING_IMAGE": f"{REGISTRY}/question-answering-serving:0123456789abcdef",
    "TORCHLIFT_NGINX_IMAGE": f"{REGISTRY}/nginx:1123456789abcdef",
    "TORCHLIFT_MONITOR_IMAGE": f"{REGISTRY}/neuron-monitor:2123456789abcdef",
}
# `run` and `rm` are recorded; an image is there once it was pulled.
DOCKER = """
printf '%s\\n' "$*" >>"$TEST_FOLDER/docker.log"
case "$1" in
  login) cat >/dev/null ;;
  image) grep -qx -- "$3" "$TEST_FOLDER/pulled" 2>/dev/null ;;
  pull) echo "${@: -1}" >>"$TEST_FOLDER/pulled" ;;
  run) env | sort >"$TEST_FOLDER/environment" ;;
esac
"""
# moto knows no SignalResource; each start of the real AWS CLI takes a second.
AWS = """
case "$1-$2" in
  cloudformation-signal-resource) echo "${*: 3}" >>"$TEST_FOLDER/signals" ;;
  ecr-get-login-password) echo password ;;
  *) exec "$REAL" "$@" ;;
esac
"""


@dataclass
class Host:
    """An Inf2 instance with `devices` Neuron devices."""

    bench: Workbench
    variables: dict[str, str]
    root: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root = self.bench.folder / "root"
        for folder in ("etc/torchlift", "opt/torchlift/hosts", "run/torchlift", "dev", "var/lib"):
            (self.root / folder).mkdir(parents=True)
        shutil.copytree(HOST_FILES, self.root / "opt/torchlift/hosts/inferentia")
        (self.root / "run/torchlift/instance").write_text("i-0123456789abcdef0\n")
        self.bench.environment |= {"TORCHLIFT_ROOT": str(self.root), "TEST_FOLDER": str(self.bench.folder)}
        self.add_devices(1)

    def add_devices(self, count: int) -> None:
        for number in range(count):
            (self.root / f"dev/neuron{number}").touch()

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the host as its unit does; `variables` are the fleet's for this call."""
        lines = [f"{name}={shlex.quote(value)}" for name, value in {**self.variables, **variables}.items()]
        (self.root / "etc/torchlift/fleet.env").write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            ["bash", str(self.root / "opt/torchlift/hosts/inferentia" / script), *arguments],
            env=self.bench.environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        require_sound(done.stderr)
        return done

    def lines(self, name: str) -> list[str]:
        """What a recorder wrote."""
        path = self.bench.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def signals(self) -> list[str]:
        """Statuses that were signalled."""
        return [re.findall(r"--status (\w+)", line)[0] for line in self.lines("signals")]

    def told(self) -> list[str]:
        """The host's own lines in the fleet's log."""
        found = self.bench.client("logs").filter_log_events(logGroupName=self.variables["TORCHLIFT_LOG_GROUP"])
        return [event["message"] for event in found["events"]]


@pytest.fixture
def host(bench: Workbench) -> Iterator[Host]:
    group = f"/torchlift/{uuid.uuid4().hex[:8]}/question-answering-fleet"
    bench.client("logs").create_log_group(logGroupName=group)
    bench.program("docker", DOCKER)
    bench.program("aws", AWS)
    bench.program("systemctl", 'printf "%s\\n" "$*" >>"$TEST_FOLDER/systemctl.log"')
    bench.program("journalctl", "echo 'NotReadyError: core 0 is not ready: no such bucket'")
    (port,) = free_ports(1)
    variables = {
        **IMAGES,
        "AWS_REGION": REGION,
        "TORCHLIFT_CORES": "2",
        "TORCHLIFT_CORES_PER_DEVICE": "2",
        "TORCHLIFT_DEPLOYMENT": "test",
        "TORCHLIFT_INSTANCE_ID": "i-0123456789abcdef0",
        "TORCHLIFT_LISTEN": str(port),
        "TORCHLIFT_LOG_GROUP": group,
        "TORCHLIFT_MODELS": f"s3://{bench.bucket}/fleet/question-answering/0123456789abcdef/models.json",
        "TORCHLIFT_QUEUE_ROWS": "64",
        "TORCHLIFT_RESOURCE": "FleetGroup",
        "TORCHLIFT_ROOT_GIB": "1",
        "TORCHLIFT_RUN_AS": f"{os.getuid()}",
        "TORCHLIFT_SOURCE": f"s3://{bench.bucket}/assets/bundle.zip",
        "TORCHLIFT_STACK": "Torchlift-test-Inferentia",
        "TORCHLIFT_DEADLINE_SECONDS": "60",
    }
    yield Host(bench=bench, variables=variables)


def right_answer(number: int, context: str, **other: object) -> bytes:
    """An answer as the server gives it."""
    start = context.index("1843")
    answer = {"text": "1843", "start": start, "end": start + 4, "score": 0.9, "has_answer": True}
    return json.dumps({**answer, "model": "model_0", "core": number, **other}).encode()
