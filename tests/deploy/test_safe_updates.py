"""A new model takes over in parts and only when it answers right; challengers, captured data and the way back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from model_code.sentiment import client as sentiment
from settings import names
from stand_in.demo.cdk import Cdk, CdkFailed
from stand_in.demo.teardown import delete_bootstrap
from stand_in.session import StandIn, stand_in
from stand_in.sweep import Inventory, leftovers, snapshot
from tests.deploy import changes, permissions, tiny
from tests.stacks.synthesis import edited

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
DEPLOYMENT = "local"
PARAMETER = names.parameter_name(DEPLOYMENT, "sentiment", "endpoint")
CHALLENGER = "Second"


@dataclass
class World:
    """One life of the stand-in, shared by the ordered tests below; two published versions that judge differently."""

    aws: StandIn
    cdk: Cdk
    folder: Path
    base: dict[str, object]
    before: Inventory
    versions: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)

    def write(self, **settings: object) -> None:
        """Settings beside the base, by dotted key with `__` for the dot."""
        edited(DEPLOYMENT, {**self.base, **{k.replace("__", "."): v for k, v in settings.items()}}, self.folder)

    @property
    def endpoint(self) -> str:
        return changes.answer(self.aws, PARAMETER)[0]

    def described(self) -> Any:
        return self.aws.client("sagemaker").describe_endpoint(EndpointName=self.endpoint)

    def answer(self) -> str:
        return changes.answer(self.aws, PARAMETER)[1]

    def remember(self, name: str) -> None:
        """What is deployed now: its version, the key of its package's probe, its answer."""
        ssm, sagemaker = self.aws.client("ssm"), self.aws.client("sagemaker")
        uri = ssm.get_parameter(Name=names.parameter_name(DEPLOYMENT, "sentiment", "model"))["Parameter"]["Value"]
        config = sagemaker.describe_endpoint_config(EndpointConfigName=self.described()["EndpointConfigName"])
        model = sagemaker.describe_model(ModelName=config["ProductionVariants"][0]["ModelName"])
        self.versions[name] = uri.rstrip("/").rpartition("/")[2]
        self.packages[name] = model["PrimaryContainer"]["ModelDataUrl"].rpartition("/")[0]
        self.answers[name] = self.answer()

    def deploy_fails(self) -> str:
        """Deploy, which must fail, with the endpoint asked all the while; returns what the CLI printed."""
        before, answer = self.described(), self.answer()
        with changes.asked_all_the_while(self.aws, PARAMETER) as asked, pytest.raises(CdkFailed) as failure:
            self.cdk.deploy()
        assert not asked.failures, asked.failures[:3]
        stack = names.stack_name(DEPLOYMENT, "Graviton")
        held = self.aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
        assert held["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
        after = self.described()
        assert (after["EndpointStatus"], after["EndpointName"]) == ("InService", before["EndpointName"])
        assert (after["EndpointConfigName"], self.answer()) == (before["EndpointConfigName"], answer)
        return str(failure.value)


def flipped(folder: Path) -> Path:
    """Data whose labels are the wrong way round: its model must not be mistaken for another."""
    data = tiny.write_data(folder)
    for labels in data.glob("*_labels.txt"):
        labels.write_text(labels.read_text().translate(str.maketrans("01", "10")))
    return data


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[World]:
    """Everything deployed once, with canary updates over two instances."""
    folder = tmp_path_factory.mktemp("safe-updates")
    base: dict[str, object] = {
        "training.base_model": str(tiny.write_base_model(folder / "base-model")),
        "training.data": str(tiny.write_data(folder / "data")),
        "text_encoding": None,
        "question_answering": None,
        # Enough for two models that are sure of opposite answers.
        "training.learning_rate": 0.01,
        "training.epochs": 6,
        "sentiment.endpoint.min_instances": 2,
        "sentiment.endpoint.initial_instances": 2,
        "sentiment.endpoint.max_instances": 3,
        "sentiment.endpoint.update.traffic": "canary",
        "sentiment.endpoint.update.step_percent": 50,
        "sentiment.endpoint.update.bake_seconds": 3600,
    }
    settings = edited(DEPLOYMENT, base, folder)
    with stand_in(region="us-west-2", state_dir=folder / "stand_in", root=root) as aws:
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=root, deployment=str(settings), logs=folder / "logs", timeout=600)
        cdk.bootstrap()
        cdk.deploy()
        made = World(aws=aws, cdk=cdk, folder=folder, base=base, before=before)
        made.remember("old")
        yield made


def test_a_canary_answers_beside_the_old_model_and_then_alone(world: World) -> None:
    world.write(training__data=str(flipped(world.folder / "flipped")))
    with changes.asked_all_the_while(world.aws, PARAMETER) as asked:
        world.cdk.deploy()
    world.remember("new")
    old, new = world.answers["old"], world.answers["new"]
    assert old.split()[0] != new.split()[0], "the two models answer alike"
    assert not asked.failures, asked.failures[:3]
    told = [answer for _, answer in asked.answers]
    assert (told[0], told[-1], set(told)) == (old, new, {old, new})
    # Both answered for a while: more than one change of hands.
    first_new = told.index(new)
    assert old in told[first_new:], "no part of the traffic went to the new model first"


def test_another_models_probe_fails_the_stack(world: World) -> None:
    """The package's probe is the other model's, so the model looks as one that answers wrong."""
    s3 = world.aws.client("s3")
    bucket, _, prefix = world.packages["old"].removeprefix("s3://").partition("/")
    other = world.packages["new"].removeprefix(f"s3://{bucket}/")
    right = s3.get_object(Bucket=bucket, Key=f"{prefix}/probe.json")["Body"].read()
    wrong = s3.get_object(Bucket=bucket, Key=f"{other}/probe.json")["Body"].read()
    s3.put_object(Bucket=bucket, Key=f"{prefix}/probe.json", Body=wrong)
    world.write()
    printed = world.deploy_fails()
    assert f"endpoint {world.endpoint}, variant AllTraffic, text 1: expected" in printed
    assert world.answer() == world.answers["new"]
    s3.put_object(Bucket=bucket, Key=f"{prefix}/probe.json", Body=right)


def test_an_alarm_that_rings_rolls_the_update_back(world: World) -> None:
    cloudwatch = world.aws.client("cloudwatch")
    watched = world.described()["LastDeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    alarm = watched[0]["AlarmName"]
    cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="a test says so")
    world.write()
    printed = world.deploy_fails()
    assert "SageMaker rolled the update back" in printed and alarm in printed
    assert world.answer() == world.answers["new"]
    cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="a test says so")


def test_a_published_version_is_served_again_without_training(world: World) -> None:
    jobs = changes.jobs(world.aws)
    flipped_data = str(world.folder / "flipped")
    world.write(training__data=flipped_data, sentiment__version=world.versions["old"])
    world.cdk.deploy()
    assert changes.jobs(world.aws) == jobs
    assert world.answer() == world.answers["old"]


def with_challenger(world: World, *, weight: float, main: float = 1, capture: bool = True) -> None:
    fleet = {"min_instances": 2, "initial_instances": 2, "max_instances": 2}
    challenger = {"name": CHALLENGER, "version": world.versions["new"], "weight": weight, **fleet}
    world.write(
        sentiment__version=world.versions["old"],
        sentiment__endpoint__weight=main,
        sentiment__endpoint__challengers=[challenger],
        **({"sentiment__endpoint__data_capture": {"sampling_percent": 100}} if capture else {}),
    )


def asked_of(world: World, **options: Any) -> tuple[str, str]:
    """(variant, best label) of one invocation."""
    body = json.dumps({"inputs": [changes.TEXT]}).encode()
    answer = world.aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=world.endpoint, Body=body, ContentType="application/json", Accept="application/json", **options
    )
    return answer["InvokedProductionVariant"], json.loads(answer["Body"].read())[0][0]["label"]


def test_a_challenger_answers_for_its_share(world: World) -> None:
    jobs = changes.jobs(world.aws)
    with_challenger(world, weight=1, capture=False)
    world.cdk.deploy()
    assert changes.jobs(world.aws) == jobs
    labels = {name: world.answers[version].split()[0] for name, version in (("AllTraffic", "old"), (CHALLENGER, "new"))}
    assert {asked_of(world) for _ in range(40)} == set(labels.items())
    for variant, label in labels.items():
        assert asked_of(world, TargetVariant=variant) == (variant, label)


def test_weights_and_data_capture_change_in_place(world: World) -> None:
    """Retained properties would hide both."""
    endpoint = world.endpoint
    with_challenger(world, weight=0)
    with changes.asked_all_the_while(world.aws, PARAMETER) as asked:
        world.cdk.deploy()
    assert not asked.failures, asked.failures[:3]
    assert world.endpoint == endpoint
    shown = world.described()
    weights = {one["VariantName"]: one["CurrentWeight"] for one in shown["ProductionVariants"]}
    assert weights == {"AllTraffic": 1, CHALLENGER: 0}
    assert {asked_of(world)[0] for _ in range(20)} == {"AllTraffic"}
    assert shown["DataCaptureConfig"]["CaptureStatus"] == "Started"


def test_what_was_asked_is_captured(world: World) -> None:
    text = "the song was captured"
    sentiment.ask(world.endpoint, [text], client=world.aws.client("sagemaker-runtime"))
    s3 = world.aws.client("s3")
    bucket, _, prefix = world.described()["DataCaptureConfig"]["DestinationS3Uri"].removeprefix("s3://").partition("/")
    deadline = time.monotonic() + 30
    lines: list[dict[str, Any]] = []
    while not lines and time.monotonic() < deadline:
        time.sleep(0.5)
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/{world.endpoint}/AllTraffic/").get("Contents", ())
        files = [s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read().decode() for one in listed]
        lines = [json.loads(line) for file in files for line in file.splitlines() if text in line]
    assert len(lines) == 1
    captured = lines[0]["captureData"]
    assert captured["endpointInput"]["encoding"] == captured["endpointOutput"]["encoding"] == "JSON"
    assert json.loads(captured["endpointInput"]["data"])["inputs"] == [text]
    assert {one["label"] for one in json.loads(captured["endpointOutput"]["data"])[0]} <= {"negative", "positive"}


def test_destroy_leaves_nothing(world: World) -> None:
    world.cdk.destroy()
    delete_bootstrap(world.aws)
    assert leftovers(world.before, snapshot(world.aws)).found == []
    access = world.aws.get("/_torchlift/access")
    written = {
        call["role"]
        for call in access["calls"]
        if call["action"] == "s3:PutObject" and "/captured/" in call["resource"]
    }
    assert written and all("ExecutionRole" in role for role in written)
    assert permissions.refused(access) == []
