"""An Inf2 host from its user data on: images traced, built and pulled, units running, questions answered per core.

Real here: user data, units, nginx, servers, images. Not here: NeuronCores (the model is traced for the CPU), systemd's
own manager (stand_in/images/host.py keeps the units going), and the device files, which are empty files.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from settings import REPO_ROOT
from settings.images import base_image
from stand_in.executor.processes import Child
from tests.containers.conftest import Yard
from tests.model_code.question_answering import tiny_qa
from tests.support.aws import REGION

pytestmark = [pytest.mark.long, pytest.mark.images, pytest.mark.timeout(1800)]
BASE = base_image("pytorch-inference-neuronx")
HASH = "fedcba9876543210"
BUCKET = "torchlift-test-artifacts"
GROUP = "/torchlift/test/question-answering-fleet"
QUESTION = {"question": "When was the old bridge built?", "context": "The old bridge was built in 1843 of stone."}


@dataclass
class Booted:
    """A running host."""

    root: Path
    child: Child
    port: int
    signals: Path

    def ask(self, path: str, document: object | None = None) -> tuple[int, Any]:
        """Status and document; 0 when nothing answers."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, None


def traced(yard: Yard, work: Path) -> None:
    """`work`/inputs/model: a tiny model, traced in the trace image, as the build does, for this machine's processor."""
    image = yard.image("question-answering-trace", base=BASE)
    tiny_qa.write_model(work / "inputs" / "pretrained")
    arguments = ["--model", "inputs/pretrained", "--output", "traced", "--backend", "cpu"]
    shapes = ["--batch-sizes", "1,4", "--lengths", "32,64", "--stride", "16"]
    script = str(REPO_ROOT / "containers/question-answering-trace/run.sh")
    program = ["python3", "-m", "model_code.question_answering.trace"]
    yard.run("bash", "-c", f'cd "{work}" && exec bash "$@"', "-", script, *program, *arguments, *shapes,
             TORCHLIFT_IMAGE=image)  # fmt: skip
    (work / "traced").rename(work / "inputs" / "model")


@pytest.fixture(scope="module")
def images(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    work = tmp_path_factory.mktemp("traced")
    for parent in work.parents:
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    traced(yard, work)
    serving = yard.image("question-answering-serving", base=BASE, TORCHLIFT_WORK=str(work), TORCHLIFT_TRACE_HASH=HASH)
    return {
        "TORCHLIFT_SERVING_IMAGE": serving,
        "TORCHLIFT_NGINX_IMAGE": yard.image("nginx", base=BASE),
        "TORCHLIFT_MONITOR_IMAGE": yard.image("neuron-monitor", base=BASE),
    }


@pytest.fixture(scope="module")
def host(
    yard: Yard, images: dict[str, str], fixed_ports: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Booted]:
    root = tmp_path_factory.mktemp("host")
    (root / "dev").mkdir()
    (root / "dev/neuron0").touch()
    s3 = yard.client("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    bundle = root / "bundle.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        for path in sorted([*(REPO_ROOT / "scripts").iterdir(), *(REPO_ROOT / "hosts/inferentia").iterdir()]):
            archive.write(path, path.relative_to(REPO_ROOT))
    s3.upload_file(str(bundle), BUCKET, "assets/bundle.zip")
    models = [{"name": "model_0", "source": f"/opt/torchlift/models/{HASH}"}]
    key = f"fleet/question-answering/{HASH}/models.json"
    s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps({"schema": 1, "models": models}))
    yard.client("logs").create_log_group(logGroupName=GROUP)
    # moto's CloudFormation takes no signals.
    signals = root / "signals"
    aws = yard.folder / "bin" / "aws"
    real = yard.run("bash", "-c", "command -v aws").strip().splitlines()[-1]
    aws.write_text(
        f'#!/bin/sh\ncase "$1 $2" in\n"cloudformation signal-resource") echo "$@" >>"{signals}" ;;\n'
        f'*) exec "{real}" "$@" ;;\nesac\n'
    )
    aws.chmod(0o755)
    variables = {
        **images,
        "AWS_REGION": REGION,
        "TORCHLIFT_CORES": "2",
        "TORCHLIFT_CORES_PER_DEVICE": "2",
        "TORCHLIFT_DEPLOYMENT": "test",
        "TORCHLIFT_INSTANCE_ID": "i-0123456789abcdef0",
        "TORCHLIFT_LOG_GROUP": GROUP,
        "TORCHLIFT_MODELS": f"s3://{BUCKET}/{key}",
        "TORCHLIFT_RESOURCE": "FleetGroup",
        "TORCHLIFT_ROOT_GIB": "1",
        "TORCHLIFT_SOURCE": f"s3://{BUCKET}/assets/bundle.zip",
        "TORCHLIFT_STACK": "Torchlift-test-Inferentia",
        "TORCHLIFT_DEADLINE_SECONDS": "300",
    }
    text = (REPO_ROOT / "hosts/inferentia/user_data.sh").read_text()
    user_data = root / "user_data.sh"
    user_data.write_text(
        text.replace("@FLEET_ENVIRONMENT@", "\n".join(f"{name}='{value}'" for name, value in variables.items()))
    )
    child = yard.start(
        *("python", "-m", "stand_in.images.host", "--root", str(root), "--user-data", str(user_data)),
        PYTHONPATH=str(REPO_ROOT),
    )
    running = Booted(root=root, child=child, port=8080, signals=signals)
    try:
        deadline = time.monotonic() + 400
        while not signals.exists() and child.poll() is None and time.monotonic() < deadline:
            time.sleep(1)
        yield running
    finally:
        child.stop()
        for name in ("server-0", "server-1", "nginx", "monitor"):
            yard.run("docker", "rm", "--force", "--ignore", f"torchlift-{name}")
        aws.unlink()


def said(host: Booted) -> str:
    """Everything that the host printed."""
    logs = [path.read_text(errors="replace")[-1500:] for path in sorted((host.root / "var/log").glob("*.log"))]
    return "\n".join([host.child.log.read_text(errors="replace")[-1500:], *logs])


def test_it_signals_success_once(host: Booted) -> None:
    assert host.signals.exists(), said(host)
    lines = host.signals.read_text().splitlines()
    assert len(lines) == 1 and "--status SUCCESS" in lines[0], said(host)


@pytest.mark.parametrize("core", [0, 1])
def test_each_core_answers(host: Booted, core: int) -> None:
    status, answer = host.ask(f"/cores/{core}/predict", QUESTION)
    assert status == 200, said(host)
    assert answer["core"] == core and answer["model"] == "model_0"


def test_all_cores_answer_the_same(host: Booted) -> None:
    answers = [host.ask(f"/cores/{core}/predict", QUESTION)[1] for core in (0, 1)]
    assert answers[0]["text"] == answers[1]["text"]
    assert host.ask("/predict", QUESTION)[1]["text"] == answers[0]["text"]


def test_the_original_clients_path(host: Booted) -> None:
    path = "/predictions_neuron_core_1/model_0?seq_0=When+was+it+built%3F&seq_1=It+was+built+in+1843."
    status, answer = host.ask(path)
    assert (status, set(answer)) == (200, {"detail"})


def test_what_the_servers_print_is_in_the_fleets_log(yard: Yard, host: Booted) -> None:
    host.ask("/predict", QUESTION)
    deadline = time.monotonic() + 30
    streams: set[str] = set()
    while time.monotonic() < deadline and not any("server-" in name for name in streams):
        found = yard.client("logs").describe_log_streams(logGroupName=GROUP)["logStreams"]
        streams = {one["logStreamName"] for one in found}
        time.sleep(1)
    assert any(name.startswith("i-0123456789abcdef0/server-") for name in streams), streams


def test_a_server_that_is_killed_is_back_and_the_others_answer_meanwhile(yard: Yard, host: Booted) -> None:
    yard.run("docker", "kill", "torchlift-server-0")
    statuses = [host.ask("/predict", QUESTION)[0] for _ in range(20)]
    assert statuses.count(200) >= 19, statuses  # the one that was running, if any
    deadline = time.monotonic() + 90
    while host.ask("/cores/0/predict", QUESTION)[0] != 200:
        assert time.monotonic() < deadline, said(host)
        time.sleep(0.5)


def test_the_host_stops_everything(yard: Yard, host: Booted) -> None:
    os.kill(host.child.pid, 15)
    host.child.wait(120)
    assert host.ask("/healthz")[0] == 0
    assert not [
        name
        for name in yard.run("docker", "ps", "--format", "{{.Names}}").split()
        if name.startswith("torchlift-server")
    ]
