"""A multi-model endpoint on the real Triton: asked by boto3, as a client on AWS would.

Not shown here, since it takes a GPU: that TensorRT loads an engine, its speed, and a GPU that is really full.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import psutil
import pytest
from botocore.exceptions import ClientError

from model_code import archive
from model_code.text_encoding import client, model_config, repository
from stand_in.executor import triton
from stand_in.executor.multi_model import memory_file
from tests.executor.conftest import REGION, ROLE, ROOT, World, eventually, listening_addresses, load, running

IMAGE = f"007439368137.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:25.09-py3"
LIMITS = client.Limits(max_batch=8, max_sequence=64)
ROOM = 2
pytestmark = pytest.mark.skipif(
    not (triton.environment_folder(ROOT) / "bin" / "python").exists(), reason="`make` has not built .venvs/triton"
)


@dataclass
class Encoders:
    """An endpoint, and models that tell each other apart: `m-<seed>`."""

    world: World
    models: ModuleType
    folder: Path
    endpoint: str = "encoders"

    def archive(self, name: str, seed: int) -> bytes:
        """The model `seed` under a name."""
        config = model_config.make(name, self.models.engine(), preferred=[4, 8])
        onnx_file = self.models.encoder(self.folder / f"{seed}.onnx", seed)
        return repository.write_for_cpu(self.folder / "archives", onnx_file, config)[0].read_bytes()

    def upload(self, name: str, seed: int) -> str:
        """Put the archive into the prefix; returns the target."""
        self.world.put("models", f"encoders/{name}.tar.gz", self.archive(name, seed))
        return f"{name}.tar.gz"

    def send(self) -> client.Send:
        return client.sagemaker(self.endpoint, self.world.client("sagemaker-runtime"))

    def ask(self, target: str, inputs: dict[str, Any], *, binary: bool = True) -> dict[str, Any]:
        return client.encode(self.send(), target, inputs, limits=LIMITS, binary=binary)

    def seed_of(self, target: str) -> float:
        """Which model answers for a target: its outputs begin with its seed."""
        return float(self.ask(target, some_input(0))["last_hidden_state"][0, 0, 0])

    def refusal(self, target: str | None, body: bytes = b"{}", **more: Any) -> dict[str, Any]:
        """The error with which the endpoint answers."""
        aimed = {} if target is None else {"TargetModel": target}
        with pytest.raises(ClientError) as found:
            self.world.client("sagemaker-runtime").invoke_endpoint(
                EndpointName=self.endpoint, Body=body, ContentType=client.JSON, **aimed, **more
            )
        return dict(found.value.response)

    def metric(self, name: str, statistic: str, namespace: str = "AWS/SageMaker") -> float:
        """Since the endpoint began."""
        points = self.world.client("cloudwatch").get_metric_statistics(
            Namespace=namespace, MetricName=name, StartTime=time.time() - 3600, EndTime=time.time() + 60, Period=3600,
            Dimensions=[{"Name": "EndpointName", "Value": self.endpoint}, {"Name": "VariantName", "Value": "main"}],
            Statistics=[statistic],
        )["Datapoints"]  # fmt: skip
        return float(sum(point[statistic] for point in points))

    def limit(self, models: int | None) -> None:
        """How many models fit into the endpoint's memory from now on."""
        file = memory_file(self.world.executor.site, self.endpoint)
        file.unlink(missing_ok=True)
        if models is not None:
            file.parent.mkdir(exist_ok=True)
            file.write_text(str(models))


def some_input(seed: int, batch: int = 2, sequence: int = 16) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    tokens = random.integers(0, 50, (batch, sequence), dtype=np.int32)
    return {"input_ids": tokens, "attention_mask": np.ones((batch, sequence), np.int32)}


def deploy(world: World, name: str, container: dict[str, Any]) -> dict[str, Any]:
    """Make an endpoint and wait for its end."""
    sagemaker = world.client("sagemaker")
    sagemaker.create_model(ModelName=name, PrimaryContainer={"Image": IMAGE, **container}, ExecutionRoleArn=ROLE)
    variant = {"VariantName": "main", "ModelName": name, "InstanceType": "ml.g4dn.xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)

    def settled() -> Any:
        found = sagemaker.describe_endpoint(EndpointName=name)
        return found["EndpointStatus"] != "Creating" and found

    return dict(eventually(settled, 90))


def multi_model(world: World, name: str, **container: Any) -> dict[str, Any]:
    data = {"Mode": "MultiModel", "ModelDataUrl": "s3://models/encoders/", **container}
    return deploy(world, name, {"Environment": {"SAGEMAKER_TRITON_LOG_VERBOSE": "false"}, **data})


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoders]:
    """In service before there is any archive."""
    folder = tmp_path_factory.mktemp("encoders")
    models = load(ROOT / "tests" / "serving" / "triton" / "models.py")
    with running(folder) as world:
        world.put("models", "elsewhere", b"")
        found = multi_model(world, "encoders")
        assert found["EndpointStatus"] == "InService", found
        yield Encoders(world, models, folder)


def test_an_uploaded_archive_is_served_at_once_in_json_and_binary_alike(encoders: Encoders) -> None:
    target, inputs = encoders.upload("alike", 7), some_input(1, batch=3, sequence=11)
    binary, text = (encoders.ask(target, inputs, binary=binary) for binary in (True, False))
    session = onnxruntime.InferenceSession(encoders.folder / "7.onnx", providers=["CPUExecutionProvider"])
    for output, right in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        np.testing.assert_array_equal(binary[output.name], right)
        np.testing.assert_array_equal(text[output.name], right)


def test_the_longest_unused_model_makes_room(encoders: Encoders) -> None:
    targets = {encoders.upload(f"few-{seed}", seed): seed for seed in (11, 12, 13)}
    first, *_ = targets
    encoders.limit(ROOM)
    loads, downloads = (encoders.metric(name, "SampleCount") for name in ("ModelLoadingTime", "ModelDownloadingTime"))
    assert [encoders.seed_of(target) for target in (*targets, first)] == [*targets.values(), targets[first]]
    encoders.limit(None)
    assert encoders.metric("ModelLoadingTime", "SampleCount") == loads + 4
    assert encoders.metric("ModelDownloadingTime", "SampleCount") == downloads + 3, "it came back from the volume"


@pytest.mark.long
def test_more_models_than_fit_and_no_wrong_model_ever_answers(encoders: Encoders) -> None:
    targets = {encoders.upload(f"many-{seed}", seed): seed for seed in (15, 16, 17, 18)}
    encoders.limit(ROOM)
    unloaded = encoders.metric("ModelUnloadingTime", "SampleCount")
    work = [(target, some_input(number)) for number in range(3) for target in targets]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda one: encoders.ask(*one), work))
    encoders.limit(None)
    for (target, _), answer in zip(work, answers, strict=True):
        assert np.unique(answer["last_hidden_state"][..., 0]).tolist() == [targets[target]]
    assert encoders.metric("ModelUnloadingTime", "SampleCount") - unloaded >= len(targets) - ROOM


def test_many_first_uses_at_once_load_the_model_once(encoders: Encoders) -> None:
    target = encoders.upload("rush", 21)
    before = {name: encoders.metric(name, "SampleCount") for name in ("ModelLoadingTime", "ModelDownloadingTime")}
    with ThreadPoolExecutor(6) as pool:
        seeds = list(pool.map(lambda _: encoders.seed_of(target), range(6)))
    assert seeds == [21] * 6
    for name, count in before.items():
        assert encoders.metric(name, "SampleCount") == count + 1


def test_what_sagemaker_refuses_itself(encoders: Encoders) -> None:
    missing = encoders.refusal(None)
    assert missing["Error"]["Code"] == "ValidationError" and "target model" in missing["Error"]["Message"]
    unknown = encoders.refusal("nobody.tar.gz")
    assert unknown["Error"]["Code"] == "ValidationError"
    assert "bucket: models, key: encoders/nobody.tar.gz" in unknown["Error"]["Message"]


def test_a_corrupt_archive_is_refused_with_its_reason_and_harms_nobody(encoders: Encoders) -> None:
    good = encoders.upload("good", 31)
    assert encoders.seed_of(good) == 31
    encoders.world.put("models", "encoders/torn.tar.gz", encoders.archive("torn", 32)[:-200])
    torn = encoders.refusal("torn.tar.gz")
    assert torn["Error"]["Code"] == "ValidationError"
    assert "Failed to extract model data archive" in torn["Error"]["Message"]
    spoilt = encoders.folder / "spoilt.tar.gz"
    archive.write(spoilt, {"spoilt/config.pbtxt": b'name: "spoilt"\nmax_batch_sise: 8\n', "spoilt/1/model.py": b""})
    encoders.world.put("models", "encoders/spoilt.tar.gz", spoilt.read_bytes())
    refused = encoders.refusal("spoilt.tar.gz")
    assert refused["Error"]["Code"] == "ModelError" and refused["OriginalStatusCode"] == 400
    assert refused["OriginalMessage"]
    assert encoders.seed_of(good) == 31
    encoders.upload("spoilt", 33)
    assert encoders.refusal("spoilt.tar.gz")["Error"]["Code"] == "ModelError", "the volume keeps what it has"


def test_the_models_own_refusals_come_through(encoders: Encoders) -> None:
    target = encoders.upload("strict", 41)
    body, _ = client.build(some_input(0, batch=9), binary=False)
    wide = encoders.refusal(target, body)
    assert wide["Error"]["Code"] == "ModelError" and wide["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert wide["OriginalStatusCode"] == 400 and "batch-size must be <= 8" in wide["OriginalMessage"]
    assert encoders.refusal(target, b"\xff\x00")["OriginalStatusCode"] == 400


def test_what_is_deleted_or_replaced_in_s3_is_served_as_it_was(encoders: Encoders) -> None:
    target = encoders.upload("kept", 51)
    assert encoders.seed_of(target) == 51
    encoders.upload("kept", 52)
    assert encoders.seed_of(target) == 51
    encoders.world.client("s3").delete_object(Bucket="models", Key=f"encoders/{target}")
    assert encoders.seed_of(target) == 51


def test_metrics_tell_hits_and_loads(encoders: Encoders) -> None:
    target = encoders.upload("counted", 61)
    hits, uses = (encoders.metric("ModelCacheHit", statistic) for statistic in ("Sum", "SampleCount"))
    waits = encoders.metric("ModelLoadingWaitTime", "SampleCount")
    for _ in range(3):
        encoders.seed_of(target)
    assert encoders.metric("ModelCacheHit", "Sum") == hits + 2
    assert encoders.metric("ModelCacheHit", "SampleCount") == uses + 3
    assert encoders.metric("ModelLoadingWaitTime", "SampleCount") == waits + 1
    assert encoders.metric("LoadedModelCount", "Maximum", "/aws/sagemaker/Endpoints") >= 1
    assert encoders.metric("Invocations", "Sum") >= 3


def test_every_socket_is_on_loopback(encoders: Encoders) -> None:
    listening = [one for found in listening_addresses(psutil.Process()).values() for one in found]
    assert listening and [one for one in listening if not one.startswith(("127.0.0.1:", "::ffff:127.0.0.1:"))] == []


def test_without_caching_a_model_is_loaded_for_each_invocation(encoders: Encoders) -> None:
    target = encoders.upload("fleeting", 71)
    found = multi_model(encoders.world, "fleeting", MultiModelConfig={"ModelCacheSetting": "Disabled"})
    assert found["EndpointStatus"] == "InService", found
    once = Encoders(encoders.world, encoders.models, encoders.folder, endpoint="fleeting")
    assert once.seed_of(target) == 71
    once.upload("fleeting", 72)
    assert once.seed_of(target) == 72, "nothing was kept"
    for name in ("ModelDownloadingTime", "ModelLoadingTime", "ModelUnloadingTime"):
        assert once.metric(name, "SampleCount") == 2
    pids = [one["pid"] for one in encoders.world.executor.state()["processes"] if "fleeting" in one["what"]]
    encoders.world.client("sagemaker").delete_endpoint(EndpointName="fleeting")
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_a_single_model_is_proved_by_an_invocation_of_its_own(encoders: Encoders) -> None:
    data = encoders.world.put("models", "single/model.tar.gz", encoders.archive("alone", 81))
    quiet = {"SAGEMAKER_TRITON_LOG_VERBOSE": "false"}
    found = deploy(encoders.world, "single", {"ModelDataUrl": data, "Environment": quiet})
    assert found["EndpointStatus"] == "InService", found
    runtime = encoders.world.client("sagemaker-runtime")
    body, content_type = client.build(some_input(0))
    answer = runtime.invoke_endpoint(EndpointName="single", Body=body, ContentType=content_type)
    outputs = client.parse(answer["Body"].read(), answer["ContentType"])
    assert outputs["last_hidden_state"][0, 0, 0] == 81
    alone = Encoders(encoders.world, encoders.models, encoders.folder, endpoint="single")
    assert "is not a multi-model endpoint" in alone.refusal("alone.tar.gz")["Error"]["Message"]
    wrong = {**quiet, "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "other"}
    failed = deploy(encoders.world, "misnamed", {"ModelDataUrl": data, "Environment": wrong})
    assert failed["EndpointStatus"] == "Failed" and "'other'" in failed["FailureReason"]
    shown = {one["name"]: one for one in encoders.world.executor.state()["endpoints"]}
    assert shown["single"]["program"] == "Triton" and shown["single"]["version"][0].isdigit()
