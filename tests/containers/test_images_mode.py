"""The sentiment workload against the stand-in in images mode: from nothing to nothing, in the images that it builds."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from model_code.sentiment import client as sentiment
from settings import REPO_ROOT, names
from stand_in.demo.cdk import Cdk
from stand_in.demo.teardown import delete_bootstrap
from stand_in.images import readiness
from stand_in.images.engine import control_groups
from stand_in.images.readiness import state_folder
from stand_in.session import StandIn, stand_in
from stand_in.sweep import Inventory, leftovers, snapshot
from tests.deploy import tiny

pytestmark = [pytest.mark.long, pytest.mark.images, pytest.mark.timeout(2400)]
DEPLOYMENT = "local"
PARAMETER = names.parameter_name(DEPLOYMENT, "sentiment", "endpoint")
SCHEMA_2 = "application/vnd.docker.distribution.manifest.v2+json"
IMAGES = {"sentimenttraining": "amd64", "sentimentserving": "arm64"}


@dataclass
class Deployed:
    """A deployment, shared by the ordered tests below; the stand-in ends with the last of them."""

    aws: StandIn
    cdk: Cdk
    before: Inventory
    folder: Path

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {job["job"]: job for job in self.aws.get("/_torchlift/state")["jobs"]}


@contextmanager
def one_instance_is_lost(aws: StandIn) -> Iterator[None]:
    """Terminate the first instance while its container trains, as EC2 does when it takes Spot capacity back."""
    ended = threading.Event()

    def lose() -> None:
        while not ended.wait(0.2):
            for job in aws.get("/_torchlift/state")["jobs"]:
                if job["kind"] == "instance" and "sentiment-train" in (said := text_of(job)) and ": run\n" in said:
                    (host,) = (aws.state_dir / "hosts").iterdir()
                    aws.client("ec2").terminate_instances(InstanceIds=[host.name])
                    return

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


def text_of(job: dict[str, Any]) -> str:
    """The job's log."""
    path = Path(job["log"])
    return path.read_text(errors="replace") if path.exists() else ""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, image_tools: None) -> Iterator[Deployed]:
    readiness.prepare(REPO_ROOT)
    folder = tmp_path_factory.mktemp("images-mode")
    settings = tiny.write_settings(
        folder / "local.toml",
        template=REPO_ROOT / "deployments/local.toml",
        base_model=tiny.write_base_model(folder / "base-model"),
        data=tiny.write_data(folder / "data"),
    )
    with stand_in(region="us-west-2", state_dir=folder / "stand_in", root=REPO_ROOT, mode="images") as aws:
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=REPO_ROOT, deployment=str(settings), logs=folder / "logs")
        cdk.bootstrap()
        with one_instance_is_lost(aws):
            cdk.deploy()
        engine = state_folder(aws.state_dir) / "engine"
        assert control_groups(engine)
        yield Deployed(aws=aws, cdk=cdk, before=before, folder=folder)
    assert control_groups(engine) == []
    state = folder / "stand_in"
    assert not (state / "images").exists()
    assert [path for name in ("jobs", "hosts", "servers") for path in (state / name).glob("*")] == []
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    # A process that ends meanwhile has no command any more.
    commands = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    assert [command for command in commands if str(state) in command] == []


def test_every_job_succeeds(deployed: Deployed) -> None:
    assert {name: job["state"] for name, job in deployed.jobs().items()} == dict.fromkeys(
        ("sentiment-image", "sentiment-train", "serving-image", "sentiment-package"), "succeeded"
    )


@pytest.mark.parametrize("image", IMAGES)
def test_ecr_has_what_was_pushed(deployed: Deployed, image: str) -> None:
    ecr = deployed.aws.client("ecr")
    (repository,) = [
        one["repositoryName"]
        for one in ecr.describe_repositories()["repositories"]
        if f"{image}repository" in one["repositoryName"]
    ]
    (shown,) = ecr.describe_images(repositoryName=repository)["imageDetails"]
    assert shown["imageManifestMediaType"] == SCHEMA_2
    digest = {"imageDigest": shown["imageDigest"]}
    (found,) = ecr.batch_get_image(repositoryName=repository, imageIds=[digest])["images"]
    manifest = json.loads(found["imageManifest"])
    assert manifest["config"]["size"] > 0 and len(manifest["layers"]) > 3


def test_a_lost_instance_is_replaced(deployed: Deployed) -> None:
    first, second = (job for job in deployed.aws.get("/_torchlift/state")["jobs"] if job["job"] == "sentiment-train")
    assert (first["state"], first["reason"]) == ("stopped", "the instance was terminated")
    assert "torchlift: the host is being shut down" in text_of(first)
    assert second["state"] == "succeeded"


def test_training_ran_in_its_image_on_a_host_of_its_own(deployed: Deployed) -> None:
    job = deployed.jobs()["sentiment-train"]
    assert "torchlift: SUCCESS: s3://" in text_of(job)
    assert not list((deployed.folder / "stand_in/hosts").glob("*")), "the instance has ended itself"
    logs = deployed.aws.client("logs")
    streams = {
        stream["logStreamName"]: group["logGroupName"]
        for group in logs.describe_log_groups()["logGroups"]
        for stream in logs.describe_log_streams(logGroupName=group["logGroupName"])["logStreams"]
        if stream["logStreamName"].startswith(f"sentiment-train/{job['hash']}/i-")
    }
    assert any(name.endswith("/host") for name in streams)
    said = [
        event["message"]
        for name, group in streams.items()
        if "/container-" in name
        for event in logs.get_log_events(logGroupName=group, logStreamName=name)["events"]
    ]
    assert any("epoch" in line for line in said), said


def test_the_endpoint_serves_from_its_image(deployed: Deployed) -> None:
    (endpoint,) = deployed.aws.get("/_torchlift/state")["endpoints"]
    assert endpoint["state"] == "InService"
    assert re.fullmatch(r"TorchServe in its image, \d+\.\d+\.\d+", f"{endpoint['program']} {endpoint['version']}")
    port = int(endpoint["url"].rpartition(":")[2])
    listening = {
        (one.laddr.ip.removeprefix("::ffff:"), psutil.Process(one.pid).uids().real)
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid
    }
    assert listening == {("127.0.0.1", 10002)}, "on loopback, as the image's user"


def test_it_answers(deployed: Deployed) -> None:
    endpoint = deployed.aws.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    answers = sentiment.ask(endpoint, ["the film was good"], client=deployed.aws.client("sagemaker-runtime"))
    assert answers[0][0].label in {"negative", "positive"}


def test_destroy_leaves_nothing(deployed: Deployed) -> None:
    deployed.cdk.destroy()
    delete_bootstrap(deployed.aws)
    assert leftovers(deployed.before, snapshot(deployed.aws)).found == []
