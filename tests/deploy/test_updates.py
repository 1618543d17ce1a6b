"""Each kind of change alone, from a deployed state and back: what ran again, what was replaced, what answered.

In images mode where this machine runs containers, in direct mode elsewhere. `docs/updates.md` is the table that this
makes, the same in both; with TORCHLIFT_WRITE_DOCS=1 it is written anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from settings import names
from stand_in.demo.cdk import Cdk
from stand_in.demo.teardown import delete_bootstrap
from stand_in.images import readiness
from stand_in.images.readiness import CannotRunImages
from stand_in.session import StandIn, stand_in
from stand_in.sweep import leftovers, snapshot
from tests.deploy import changes, tiny
from tests.deploy.checkout import copy_checkout
from tests.stacks.synthesis import edited

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]
DEPLOYMENT = "local"
PARAMETER = names.parameter_name(DEPLOYMENT, "sentiment", "endpoint")
DOCUMENT = Path("docs/updates.md")
HEAD = """\
# What a change does

Each change alone, from a deployed state, and back again: shown by the real CDK CLI on the stand-in for AWS, with the
endpoint invoked all the while. No invocation failed in any of them, and going back never ran a finished job again. The
resources of the jobs that ran (roles, projects, wait conditions) are left out. Made by `tests/deploy/test_updates.py`:
by buildspecs, user data and images where a machine runs containers ([images.md](images.md)), in direct mode elsewhere.

| change | jobs that ran | new or gone | replaced | changed in place | answers meanwhile |
|---|---|---|---|---|---|
"""


@dataclass
class World:
    """A deployed copy of the checkout."""

    aws: StandIn
    cdk: Cdk
    copy: Path
    settings: Path
    folder: Path
    base: dict[str, object]
    shipped: Path
    """The assembly of the deployment as it ships: going back there needs no second synthesis."""
    rows: dict[str, list[str]] = field(default_factory=dict)

    def write(self, **settings: object) -> None:
        edited(DEPLOYMENT, {**self.base, **settings}, self.folder)

    def change(self, apply: Callable[[], None], *, assembly: Path | None = None) -> changes.Effect:
        """Apply, deploy, and say what it did."""
        before, ran = changes.resources(self.aws), changes.jobs(self.aws)
        answered = changes.answer(self.aws, PARAMETER)
        cloudformation = self.aws.client("cloudformation")
        since = max(
            event["Timestamp"]
            for stack in {stack for stack, _ in before}
            for event in cloudformation.describe_stack_events(StackName=stack)["StackEvents"][:1]
        )
        apply()
        with changes.asked_all_the_while(self.aws, PARAMETER) as asked:
            self.cdk.deploy(assembly=assembly)
        after = changes.resources(self.aws)
        return changes.effect(
            before,
            after,
            changes.touched(self.aws, {stack for stack, _ in after}, since),
            [job for job, hash in changes.jobs(self.aws) if (job, hash) not in ran],
            asked.told(answered),
        )


def mode(root: Path) -> str:
    """The truest one that this machine has."""
    try:
        readiness.prepare(root)
    except CannotRunImages as error:
        print(f"direct mode: {error}")
        return "direct"
    return "images"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[World]:
    """Everything deployed once from a copy of the checkout; at the end everything is destroyed, and nothing is left."""
    folder = tmp_path_factory.mktemp("updates")
    copy = copy_checkout(root, folder / "checkout")
    base: dict[str, object] = {
        "training.base_model": str(tiny.write_base_model(folder / "base-model")),
        "training.data": str(tiny.write_data(folder / "data")),
        "text_encoding": None,
        "question_answering": None,
    }
    settings = edited(DEPLOYMENT, base, folder)
    with stand_in(region="us-west-2", state_dir=folder / "stand_in", root=root, mode=mode(root)) as aws:
        aws.environment["PYTHONPATH"] = os.pathsep.join([str(copy), str(copy / "constructs")])
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=copy, deployment=str(settings), logs=folder / "logs", timeout=600)
        cdk.bootstrap()
        cdk.deploy()
        shipped = shutil.copytree(cdk.assembly, folder / "shipped")
        yield World(aws=aws, cdk=cdk, copy=copy, settings=settings, folder=folder, base=base, shipped=shipped)
        cdk.destroy()
        delete_bootstrap(aws)
        assert leftovers(before, snapshot(aws)).found == []


def setting(**values: object) -> Callable[[World], None]:
    """A change of settings, by dotted key with `__` for the dot."""
    return lambda world: world.write(**{key.replace("__", "."): value for key, value in values.items()})


def source(path: str, old: str, new: str) -> Callable[[World], None]:
    """A change of a file of the checkout."""

    def apply(world: World) -> None:
        file = world.copy / path
        text = file.read_text()
        assert old in text, f"{path} no longer holds {old!r}"
        file.write_text(text.replace(old, new, 1))

    return apply


def other_data(world: World) -> None:
    world.write(**{"training.data": str(tiny.write_data(world.folder / "other-data", seed=1))})


def challenger(*, weight: float) -> Callable[[World], None]:
    """A second variant. It serves the same version, so that whichever answers, the answers are one model's."""

    def apply(world: World) -> None:
        uri = world.aws.client("ssm").get_parameter(Name=names.parameter_name(DEPLOYMENT, "sentiment", "model"))
        version = uri["Parameter"]["Value"].rstrip("/").rpartition("/")[2]
        world.write(**{"sentiment.endpoint.challengers": [{"name": "Second", "version": version, "weight": weight}]})

    return apply


CHANGES: dict[str, Callable[[World], None]] = {
    "a hyperparameter (`training.seed`)": setting(training__seed=7),
    "the data": other_data,
    "the handler's code": source("model_code/sentiment/inference.py", "\n\n", "\n\n# changed\n"),
    "the serving image (its requirements)": source(
        "containers/sentiment-serving/requirements.txt", "\n", "\n# changed\n"
    ),
    "the base image's tag": source(
        "settings/images.py", "2.6.0-cpu-py312-ubuntu22.04-sagemaker", "2.6.0-cpu-py312-changed"
    ),
    "`max_instances`": setting(sentiment__endpoint__max_instances=3),
    "`initial_instances` and `min_instances`": setting(
        sentiment__endpoint__min_instances=2, sentiment__endpoint__initial_instances=2
    ),
    "the endpoint's instance type": setting(sentiment__endpoint__instance_type="ml.c7g.2xlarge"),
    "data capture": setting(sentiment__endpoint__data_capture={"sampling_percent": 100}),
    "a challenger": challenger(weight=0.1),
    "a challenger's weight": challenger(weight=0.2),
    "an alarm's threshold (`latency_p99_ms_alarm`)": setting(sentiment__endpoint__latency_p99_ms_alarm=700),
    "a tag (`deployment.owner`)": setting(deployment__owner="another-team"),
    "`logs.retention_days`": setting(logs__retention_days=3),
}
FROM: dict[str, Callable[[World], None]] = {"a challenger's weight": CHANGES["a challenger"]}
"""What is deployed first, where it is not the deployment as it ships."""
CHANGED_FILES = (
    "model_code/sentiment/inference.py",
    "containers/sentiment-serving/requirements.txt",
    "settings/images.py",
)


def as_shipped(world: World) -> None:
    world.write()
    for path in CHANGED_FILES:
        (world.copy / path).write_text((Path(__file__).parents[2] / path).read_text())


@pytest.mark.parametrize("name", CHANGES)
def test_change_and_back(name: str, world: World) -> None:
    first = FROM.get(name, as_shipped)
    if name in FROM:
        first(world)
        world.cdk.deploy()
    there = world.change(lambda: CHANGES[name](world))
    world.rows[name] = there.cells()

    shipped = None if name in FROM else world.shipped
    back = world.change(lambda: first(world), assembly=shipped)
    assert back.jobs == [], "going back found its results in place"
    assert (back.created | back.removed, back.replaced) == (there.created | there.removed, there.replaced)
    printed = world.cdk.diff(assembly=shipped or world.cdk.assembly)
    assert "Number of stacks with differences: 0" in printed
    if name in FROM:
        as_shipped(world)
        world.cdk.deploy(assembly=world.shipped)


def test_the_document_says_so(world: World, root: Path) -> None:
    assert set(world.rows) == set(CHANGES), "run the whole module"
    text = HEAD + "".join(f"| {' | '.join([name, *cells])} |\n" for name, cells in world.rows.items())
    if os.environ.get("TORCHLIFT_WRITE_DOCS"):
        (root / DOCUMENT).write_text(text)
    assert (root / DOCUMENT).read_text() == text


def test_what_never_touches_the_endpoint(world: World) -> None:
    """Scaling, alarms, tags and logs are no reason to start new instances."""
    for name in ("`max_instances`", "an alarm's threshold (`latency_p99_ms_alarm`)", "`logs.retention_days`"):
        jobs, _, replaced, updated, answers = world.rows[name]
        assert jobs == "nothing"
        assert "SageMaker::Endpoint" not in replaced + updated
        assert answers == "the same"
