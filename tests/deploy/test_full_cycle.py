"""The real CDK CLI, handlers, scripts, training and TorchServe: from nothing to nothing, twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from model_code.sentiment import client as sentiment
from settings import names
from stand_in.cloudformation.readback import compare, needless, reasons, unexplained
from stand_in.demo.cdk import Cdk, CdkFailed
from stand_in.demo.teardown import delete_bootstrap
from stand_in.session import StandIn, run, stand_in
from stand_in.sweep import Inventory, leftovers, snapshot
from tests.deploy import permissions, tiny
from tests.deploy.changes import asked_all_the_while
from tests.deploy.trap import Trap

pytestmark = pytest.mark.timeout(900)
DEPLOYMENT = "local"
PARAMETER = names.parameter_name(DEPLOYMENT, "sentiment", "endpoint")


@dataclass
class Cycle:
    """One life of the stand-in, shared by the ordered tests below."""

    aws: StandIn
    cdk: Cdk
    settings: Path
    write: Any
    before: Inventory
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return str(self.aws.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"])

    @property
    def weights(self) -> str:
        parameter = names.parameter_name(DEPLOYMENT, "sentiment", "model")
        return str(self.aws.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])

    def ask(self, text: str) -> sentiment.Judgement:
        return sentiment.ask(self.endpoint, [text], client=self.aws.client("sagemaker-runtime"))[0][0]

    def jobs(self) -> list[tuple[str, str, str]]:
        return [(job["job"], job["hash"], job["state"]) for job in self.aws.get("/_torchlift/state")["jobs"]]

    def calls(self) -> list[dict[str, Any]]:
        """What roles called so far, with how often."""
        made: list[dict[str, Any]] = self.aws.get("/_torchlift/access")["calls"]
        return made

    def processes(self) -> list[dict[str, Any]]:
        """What the stand-in runs now."""
        running: list[dict[str, Any]] = self.aws.get("/_torchlift/state")["processes"]
        return running

    def templates(self) -> dict[str, str]:
        cloudformation = self.aws.client("cloudformation")
        return {
            stack["StackName"]: cloudformation.describe_stacks(StackName=stack["StackName"])["Stacks"][0]["StackStatus"]
            for stack in cloudformation.describe_stacks()["Stacks"]
        }


@contextmanager
def invoked_all_the_while(cycle: Cycle) -> Iterator[list[str]]:
    """Ask the endpoint again and again; yields the failures."""
    with asked_all_the_while(cycle.aws, PARAMETER) as asked:
        yield asked.failures
    assert len(asked.answers) > 5


@pytest.fixture(scope="module", params=["first", "second"])
def cycle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, root: Path, sprung_trap: Trap
) -> Iterator[Cycle]:
    """A stand-in with a bootstrapped account and nothing else."""
    folder = tmp_path_factory.mktemp(f"cycle-{request.param}")
    base_model = tiny.write_base_model(folder / "base-model")
    data = tiny.write_data(folder / "data")
    settings = folder / "local.toml"

    def write(*, data: Path = data, **training: object) -> None:
        tiny.write_settings(
            settings, template=root / "deployments/local.toml", base_model=base_model, data=data, **training
        )

    write()
    with stand_in(region="us-west-2", state_dir=folder / "stand_in", root=root) as aws:
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=root, deployment=str(settings), logs=folder / "logs", timeout=600)
        cdk.bootstrap()
        yield Cycle(aws=aws, cdk=cdk, settings=settings, write=write, before=before)


def test_deploys_trains_and_serves(cycle: Cycle) -> None:
    cycle.cdk.deploy()
    jobs = cycle.jobs()
    assert {(job, state) for job, _, state in jobs} == {
        ("sentiment-image", "succeeded"),
        ("sentiment-train", "succeeded"),
        ("serving-image", "succeeded"),
        ("sentiment-package", "succeeded"),
    }
    answer = cycle.ask("the film was good")
    assert answer.label in {"negative", "positive"} and 0 < answer.score <= 1


def test_the_operators_command_looks_and_asks(cycle: Cycle, root: Path, tmp_path: Path) -> None:
    def torchlift(*arguments: str) -> str:
        done = run(
            ["torchlift", *arguments],
            environment=cycle.aws.environment | {"COLUMNS": "200"},
            cwd=root,
            log=tmp_path / "torchlift.log",
            timeout=60,
        )
        assert done.returncode == 0, done.stdout
        return str(done.stdout)

    status = torchlift("status", str(cycle.settings))
    for kind in ("Foundation", "Training", "Graviton"):
        assert names.stack_name(DEPLOYMENT, kind) in status
    assert cycle.endpoint in status
    answers = torchlift("invoke", str(cycle.settings), "the film was good", "the meal was awful", "--top-k", "2")
    assert len(answers.splitlines()) == 2
    assert answers.count("positive") == answers.count("negative") == 2
    (trained,) = json.loads(torchlift("versions", "list", str(cycle.settings), "--json"))
    assert len(trained["in_service"]) == 1 and "last deploy" in trained["wanted_by"]
    assert f"Endpoint {cycle.endpoint}: InService" in status
    folder = tmp_path / "model"
    folder.mkdir()
    s3 = cycle.aws.client("s3")
    bucket, _, prefix = cycle.weights.removeprefix("s3://").partition("/")
    for item in s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]:
        s3.download_file(bucket, item["Key"], str(folder / item["Key"].removeprefix(prefix)))
    (folder / "manifest.json").unlink()
    torchlift("versions", "publish", str(cycle.settings), str(folder))
    (published,) = [
        row
        for row in json.loads(torchlift("versions", "list", str(cycle.settings), "--json"))
        if row["version"] != trained["version"]
    ]
    assert published["held_out"] == trained["held_out"] and published["in_service"] == []
    torchlift("versions", "delete", str(cycle.settings), published["version"], "--yes")
    plan = torchlift("teardown", str(cycle.settings), "--dry-run")
    assert all(stack in plan for stack in cycle.templates() if stack.startswith(names.STACK_PREFIX))


def test_every_property_arrived(cycle: Cycle) -> None:
    readings = [
        reading
        for stack in cycle.templates()
        if stack.startswith(names.STACK_PREFIX)
        for reading in compare(cycle.aws, stack)
    ]
    print(f"{len(readings)} properties read back; {len(reasons())} are listed as not shown by the services")
    assert len(readings) > 300
    assert unexplained(readings) == []
    assert needless(readings) == []


def test_a_second_look_finds_nothing_to_do(cycle: Cycle) -> None:
    printed = cycle.cdk.diff()
    assert "Number of stacks with differences: 0" in printed
    before, calls, processes = cycle.jobs(), cycle.calls(), cycle.processes()
    cycle.cdk.deploy()
    assert cycle.jobs() == before
    # No function, job or server was started, and those that run made no call.
    assert cycle.calls() == calls and cycle.processes() == processes


def test_a_hyperparameter_reruns_training_and_what_depends_on_it(cycle: Cycle) -> None:
    before = cycle.jobs()
    old_config = cycle.aws.client("sagemaker").describe_endpoint(EndpointName=cycle.endpoint)["EndpointConfigName"]
    cycle.write(seed=7)
    with invoked_all_the_while(cycle) as failures:
        cycle.cdk.deploy()
    assert not failures
    new = [job for job in cycle.jobs() if job not in before]
    assert [(job, state) for job, _, state in new] == [
        ("sentiment-train", "succeeded"),
        ("sentiment-package", "succeeded"),
    ]
    new_config = cycle.aws.client("sagemaker").describe_endpoint(EndpointName=cycle.endpoint)["EndpointConfigName"]
    assert new_config != old_config


def test_going_back_reruns_nothing(cycle: Cycle) -> None:
    before = cycle.jobs()
    cycle.write()
    cycle.cdk.deploy()
    assert cycle.jobs() == before


def test_a_failed_training_rolls_back_with_its_reason(cycle: Cycle, tmp_path: Path) -> None:
    data = tiny.write_data(tmp_path / "broken", seed=1)
    labels = data / "train_labels.txt"
    labels.write_text(labels.read_text().replace("1\n", "9\n", 1))
    config = cycle.aws.client("sagemaker").describe_endpoint(EndpointName=cycle.endpoint)["EndpointConfigName"]
    cycle.write(data=data)
    with invoked_all_the_while(cycle) as failures, pytest.raises(CdkFailed) as failure:
        cycle.cdk.deploy()
    assert not failures
    assert "train_labels.txt" in str(failure.value) and "9" in str(failure.value)
    assert cycle.templates()[names.stack_name(DEPLOYMENT, "Training")] == "UPDATE_ROLLBACK_COMPLETE"
    assert cycle.aws.client("sagemaker").describe_endpoint(EndpointName=cycle.endpoint)["EndpointConfigName"] == config
    cycle.write()


def test_destroy_leaves_nothing(cycle: Cycle, sprung_trap: Trap) -> None:
    cycle.aws.get("/_torchlift/access")  # takes note of the roles that are there
    cycle.cdk.destroy()
    delete_bootstrap(cycle.aws)
    left = leftovers(cycle.before, snapshot(cycle.aws))
    assert left.found == []
    assert sprung_trap.calls == []


def test_roles_were_allowed_every_call_and_each_spare_permission_has_a_reason(cycle: Cycle) -> None:
    roles = ("StartJobRole", "ImageRole", "TrainAccessRole", "PackageRole", "ExecutionRole", "VerifyFunctionRole")
    permissions.check(cycle.aws.get("/_torchlift/access"), "sentiment", calls=50, roles=roles)
