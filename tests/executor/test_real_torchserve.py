"""The real SageMaker toolkit and TorchServe behind an endpoint, with a tiny model of our own package."""

from __future__ import annotations

import json
from typing import Any

import psutil
import pytest

from model_code.sentiment.package import package
from settings import load_settings
from stacks.serving_environment import container_environment
from stand_in.executor import torchserve
from tests.executor.conftest import REGION, ROLE, ROOT, World, eventually, listening_addresses, load

IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker"
pytestmark = pytest.mark.skipif(not torchserve.python(ROOT).exists(), reason="`make` has not built .venvs/torchserve")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The model.tar.gz of an untrained tiny classifier."""
    from transformers import AutoModelForSequenceClassification

    folder = tmp_path_factory.mktemp("tiny")
    load(ROOT / "tests" / "model_code" / "tiny_model.py").write_base(folder / "model")
    names = {0: "negative", 1: "neutral", 2: "positive"}
    model = AutoModelForSequenceClassification.from_pretrained(folder / "model", num_labels=3, id2label=names)
    model.save_pretrained(folder / "model")
    package(folder / "model", folder / "model.tar.gz")
    return (folder / "model.tar.gz").read_bytes()


def test_torchserve_answers_on_loopback_only(world: World, archive: bytes) -> None:
    client: Any = world.client("sagemaker")
    # Other tests' servers may live as long as this process.
    others = set(listening_addresses(psutil.Process()))
    data = world.put("models", "tiny/model.tar.gz", archive)
    sentiment = load_settings("dev", root=ROOT).sentiment
    assert sentiment is not None
    environment = container_environment(sentiment.endpoint.model_copy(update={"workers": 1}), vcpus=1)
    container = {"Image": IMAGE, "ModelDataUrl": data, "Environment": environment}
    client.create_model(ModelName="tiny", PrimaryContainer=container, ExecutionRoleArn=ROLE)
    variant = {"VariantName": "main", "ModelName": "tiny", "InstanceType": "ml.c5.large", "InitialInstanceCount": 1}
    client.create_endpoint_config(EndpointConfigName="tiny", ProductionVariants=[variant])
    client.create_endpoint(EndpointName="tiny", EndpointConfigName="tiny")

    def settled() -> Any:
        found = client.describe_endpoint(EndpointName="tiny")
        return found["EndpointStatus"] != "Creating" and found

    found = eventually(settled, 90)
    assert found["EndpointStatus"] == "InService", found
    answer = world.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="tiny", Body=json.dumps({"inputs": "a good film"}), ContentType="application/json"
    )
    best = json.loads(answer["Body"].read())
    assert "negative" in str(best) or "neutral" in str(best) or "positive" in str(best)
    shown = world.executor.state()["endpoints"][0]
    assert (shown["program"], shown["state"]) == ("TorchServe", "InService") and shown["version"][0].isdigit()

    addresses = {pid: found for pid, found in listening_addresses(psutil.Process()).items() if pid not in others}
    flat = [address for found in addresses.values() for address in found]
    assert len(flat) >= 4, "the server's ports were not seen"
    assert [address for address in flat if not address.startswith(("127.0.0.1:", "::ffff:127.0.0.1:"))] == []
    pids = list(addresses)
    client.delete_endpoint(EndpointName="tiny")
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))
