"""Text encoding alone against the stand-in in images mode: its endpoint is the image that its own build pushed."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import psutil
import pytest

from model_code import archive
from settings import REPO_ROOT, names
from stand_in.demo.cdk import Cdk, CdkFailed
from stand_in.demo.teardown import delete_bootstrap
from stand_in.executor import triton
from stand_in.images import readiness
from stand_in.images.engine import control_groups
from stand_in.session import StandIn, stand_in
from stand_in.sweep import leftovers, snapshot
from tests.containers import remains
from tests.deploy import changes, tiny
from tests.deploy.checkout import copy_checkout
from tests.deploy.encoders import Deployment, parameter_name
from tests.stacks.synthesis import edited
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.images,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not (triton.environment_folder(REPO_ROOT) / "bin" / "python").exists(),
        reason="`make` has not built .venvs/triton",
    ),
]
NAME = "local"
SCHEMA_2 = "application/vnd.docker.distribution.manifest.v2+json"
MODELS = ("encoder-0", "encoder-1")
REASON = "invalid value for bool option: perhaps"


@dataclass
class Deployed(Deployment):
    """Shared by the ordered tests below; deployed from a copy of the checkout, whose files they may change."""

    copy: Path
    base: dict[str, object]

    def server(self) -> psutil.Process:
        """The one Triton that listens where the endpoint says."""
        (endpoint,) = self.aws.get("/_torchlift/state")["endpoints"]
        port = int(endpoint["url"].rpartition(":")[2])
        (pid,) = {pid for _, pid in listening(port)}
        return psutil.Process(pid)

    def metric(self, name: str) -> float:
        """How often the endpoint recorded it."""
        found = self.aws.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker", MetricName=name, Statistics=["SampleCount"],
            StartTime=time.time() - 3600, EndTime=time.time() + 60, Period=3600,
            Dimensions=[
                {"Name": "EndpointName", "Value": self.parameter("endpoint")},
                {"Name": "VariantName", "Value": names.MAIN_VARIANT},
            ],
        )["Datapoints"]  # fmt: skip
        return float(sum(point["SampleCount"] for point in found))


def listening(port: int) -> set[tuple[str, int]]:
    """{(address, process id)} of whatever listens on a port of this machine."""
    return {
        (one.laddr.ip, one.pid)
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid
    }


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, image_tools: None) -> Iterator[Deployed]:
    readiness.prepare(REPO_ROOT)
    folder = tmp_path_factory.mktemp("encoders")
    copy = copy_checkout(REPO_ROOT, folder / "checkout")
    base_model = tiny.write_base_model(folder / "base-model")
    base: dict[str, object] = {
        "training": None,
        "sentiment": None,
        "question_answering": None,
        "text_encoding.base_model": str(base_model),
    }
    settings = edited(NAME, base, folder)
    state = folder / "stand_in"
    with stand_in(region="us-west-2", state_dir=state, root=REPO_ROOT, mode="images") as aws:
        aws.environment["PYTHONPATH"] = os.pathsep.join([str(copy), str(copy / "constructs")])
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=copy, deployment=str(settings), logs=folder / "logs", timeout=600)
        cdk.bootstrap()
        cdk.deploy()
        assert control_groups(readiness.state_folder(state) / "engine")
        yield Deployed(aws, cdk, settings, base_model, before, copy, base)
    remains.require_none(state)


def test_both_images_are_built_and_the_engines_job_runs_in_the_one_that_builds_engines(deployed: Deployed) -> None:
    jobs = {job["job"]: job for job in deployed.aws.get("/_torchlift/state")["jobs"]}
    assert {name: (job["mode"], job["state"]) for name, job in jobs.items()} == dict.fromkeys(
        ("triton-image", "text-encoding-image", "text-encoding-engine"), ("images", "succeeded")
    )
    said = Path(jobs["text-encoding-engine"]["log"]).read_text()
    assert "torchlift: SUCCESS: s3://" in said and "on a CPU each model is served with this change" in said
    assert "/usr/local/lib/python3.11/dist-packages/" in said, "with the image's own libraries"


def test_ecr_has_what_was_pushed(deployed: Deployed) -> None:
    ecr = deployed.aws.client("ecr")
    (repository,) = [
        one["repositoryName"]
        for one in ecr.describe_repositories()["repositories"]
        if "tritonrepository" in one["repositoryName"]
    ]
    (shown,) = ecr.describe_images(repositoryName=repository)["imageDetails"]
    assert shown["imageManifestMediaType"] == SCHEMA_2
    digest = {"imageDigest": shown["imageDigest"]}
    (found,) = ecr.batch_get_image(repositoryName=repository, imageIds=[digest])["images"]
    manifest = json.loads(found["imageManifest"])
    assert manifest["config"]["size"] > 0 and len(manifest["layers"]) > 3


def test_the_endpoint_is_that_image_on_loopback_and_not_as_root(deployed: Deployed) -> None:
    (endpoint,) = deployed.aws.get("/_torchlift/state")["endpoints"]
    assert endpoint["state"] == "InService"
    assert re.fullmatch(r"Triton in its image, \d+\.\d+\.\d+", f"{endpoint['program']} {endpoint['version']}")
    server = deployed.server()
    assert listening(int(endpoint["url"].rpartition(":")[2])) == {("127.0.0.1", server.pid)}
    assert server.uids().real == 1000
    mounts = [line.split() for line in Path(f"/proc/{server.pid}/mountinfo").read_text().splitlines()]
    options = {mount[4]: mount[5].split(",") for mount in mounts}
    assert "ro" in options["/"] and "ro" in options["/opt/ml/models"]
    assert "rw" in options["/tmp"]


def test_a_model_makes_room_for_another_and_comes_back_from_the_volume(deployed: Deployed) -> None:
    """Whether the deployment's verification was answered is seen here, too: it loaded the first model."""
    timed = ("ModelLoadingTime", "ModelUnloadingTime", "ModelDownloadingTime")
    counts = [deployed.metric(name) for name in timed]
    assert counts == [1, 0, 1]
    room = deployed.aws.state_dir / "memory" / deployed.parameter("endpoint")
    room.parent.mkdir()
    room.write_text("1")
    answers = [deployed.ask(model)["last_hidden_state"] for model in (*MODELS, *MODELS)]
    room.unlink()
    assert [deployed.metric(name) for name in timed] == [4, 3, 2]
    # They are copies of one model.
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])


@pytest.mark.parametrize("model", MODELS)
def test_each_encoder_answers_as_its_own_onnx_file(deployed: Deployed, model: str, tmp_path: Path) -> None:
    bucket, _, prefix = deployed.parameter("models").removeprefix("s3://").partition("/")
    packed = tmp_path / "model.tar.gz"
    deployed.aws.client("s3").download_file(bucket, f"{prefix}{model}.tar.gz", str(packed))
    archive.unpack(packed, tmp_path / "model")
    (onnx_file,) = (tmp_path / "model").rglob("*.onnx")
    session = onnxruntime.InferenceSession(onnx_file, providers=["CPUExecutionProvider"])
    right = session.run(None, deployed.inputs())
    for binary in (True, False):
        answer = deployed.ask(model, binary=binary)
        for output, array in zip(session.get_outputs(), right, strict=True):
            np.testing.assert_array_equal(answer[output.name], array)


def asked(aws: StandIn, parameter: str, *, deployed: Deployed) -> tuple[str, str]:
    return parameter, str(deployed.ask(MODELS[0])["last_hidden_state"][0, 0, :4])


def asked_while_deploying(deployed: Deployed) -> str:
    """Deploy with the endpoint asked all the while; returns what failed, empty when nothing did."""
    failed = ""
    with changes.asked_all_the_while(
        deployed.aws, parameter_name("endpoint"), partial(asked, deployed=deployed)
    ) as answers:
        try:
            deployed.cdk.deploy()
        except CdkFailed as error:
            failed = str(error)
    assert not answers.failures, answers.failures[:3]
    assert len(answers.answers) > 5 and len(set(answers.answers)) == 1
    return failed


def test_an_update_swaps_containers_and_no_invocation_fails(deployed: Deployed) -> None:
    old = deployed.server()
    edited(NAME, {**deployed.base, "text_encoding.endpoint.shared_memory_mib": 8}, deployed.settings.parent)
    assert asked_while_deploying(deployed) == ""
    assert not old.is_running()
    assert f"--backend-config=python,shm-default-byte-size={8 << 20}" in deployed.server().cmdline()


def test_a_server_that_ends_as_it_starts_is_rolled_back_with_its_reason(deployed: Deployed) -> None:
    server, before = deployed.server(), described(deployed)
    construct = deployed.copy / "constructs" / "torchlift" / "multi_model_endpoint.py"
    right = construct.read_text()
    line = '"SAGEMAKER_TRITON_LOG_INFO": "true"'
    assert right.count(line) == 1
    construct.write_text(right.replace(line, line.replace("true", "perhaps")))
    failed = asked_while_deploying(deployed)
    construct.write_text(right)
    assert "did not pass the ping health check" in failed
    printed = (deployed.cdk.logs / "cdk-deploy.log").read_text()
    named = re.findall(r"did not get ready\. Its log (\S+) ends with", printed)
    assert REASON in Path(named[-1]).read_text()
    assert server.is_running() and server == deployed.server()
    after = described(deployed)
    assert after["EndpointStatus"] == "InService"
    assert after["EndpointConfigName"] == before["EndpointConfigName"]


def described(deployed: Deployed) -> Any:
    return deployed.aws.client("sagemaker").describe_endpoint(EndpointName=deployed.parameter("endpoint"))


def test_destroy_leaves_nothing(deployed: Deployed) -> None:
    deployed.cdk.destroy()
    delete_bootstrap(deployed.aws)
    # An endpoint's end does not wait for its container's.
    eventually(lambda: leftovers(deployed.before, snapshot(deployed.aws)).found == [], 60)
    assert deployed.aws.get("/_torchlift/state")["processes"] == []
