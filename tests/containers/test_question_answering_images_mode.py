"""Question answering against the stand-in in images mode: hosts from their user data on, in real images."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from settings import REPO_ROOT, names
from stand_in.demo.cdk import Cdk, CdkFailed
from stand_in.demo.teardown import delete_bootstrap
from stand_in.images import readiness
from stand_in.images.engine import control_groups
from stand_in.images.readiness import state_folder
from stand_in.session import StandIn, stand_in
from stand_in.sweep import Inventory, leftovers, snapshot
from tests.deploy.question_answering import PARAMETER, ask, asked_all_the_while, write_settings
from tests.model_code.question_answering.tiny_qa import write_model
from tests.support.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.images, pytest.mark.timeout(1800)]
JOBS = {job for job in names.JOBS if job.startswith(("question", "nginx", "neuron"))}
STACK = "Torchlift-local-Inferentia"
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:no-such-secret-AbCdEf"
SERVER_SECONDS = 90


@dataclass
class Deployed:
    """A deployment, shared by the ordered tests below; the stand-in ends with the last of them."""

    aws: StandIn
    cdk: Cdk
    before: Inventory
    settings: Path
    model: Path

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.aws.get("/_torchlift/state")
        return found

    def host(self) -> dict[str, Any]:
        """The one that is there."""
        (found,) = self.state()["fleets"]
        return dict(found)

    def boots(self) -> list[dict[str, Any]]:
        """All that was started so far, oldest first."""
        return [job for job in self.state()["jobs"] if job["job"] == names.QUESTION_ANSWERING_FLEET]

    def change(self, **settings: Any) -> None:
        write_settings(self.settings, REPO_ROOT, model=self.model, **settings)

    def docker(self, instance: str, *arguments: str) -> str:
        """`docker` of a host."""
        program = state_folder(self.aws.state_dir) / instance / "bin" / "docker"
        return subprocess.run([program, *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


def status_of(aws: StandIn, path: str = "/readyz") -> int:
    url = str(aws.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"])
    try:
        with urllib.request.urlopen(url + path, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def networks() -> dict[int, int]:
    """{process: inode of its network namespace}"""
    found = {}
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found[int(one.name)] = (one / "ns/net").stat().st_ino
    return found


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, image_tools: None) -> Iterator[Deployed]:
    readiness.prepare(REPO_ROOT)
    folder = tmp_path_factory.mktemp("fleet")
    state = folder / "stand_in"
    settings, model = folder / "local.toml", write_model(folder / "model")
    networks_before = set(networks().values())
    with stand_in(region="us-west-2", state_dir=state, root=REPO_ROOT, mode="images") as aws:
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=REPO_ROOT, deployment=str(settings), logs=folder / "logs", timeout=900)
        made = Deployed(aws=aws, cdk=cdk, before=before, settings=settings, model=model)
        made.change()
        cdk.bootstrap()
        cdk.deploy()
        engine = state_folder(state) / made.host()["instance"] / "engine"
        assert control_groups(engine)
        (network,) = {networks()[pid] for pid in containers(engine)}
        assert network not in networks_before, "not this machine's"
        yield made
    assert control_groups(engine) == [] and network not in networks().values()
    assert not state_folder(state).exists() and not (state / "hosts").exists()
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    # A process that ends meanwhile has no command any more.
    commands = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    assert [command for command in commands if str(state) in command] == []


def containers(engine: Path) -> set[int]:
    """Processes in the containers of an engine."""
    return {int(pid) for group in control_groups(engine) for path in group.rglob("cgroup.procs")
            for pid in path.read_text().split()}  # fmt: skip


def test_every_job_succeeds_in_images(deployed: Deployed) -> None:
    found = {(job["job"], job["state"], job["mode"]) for job in deployed.state()["jobs"]}
    assert found == {(job, "succeeded", "images") for job in JOBS}


def test_every_core_answers_behind_the_load_balancer(deployed: Deployed) -> None:
    assert set(Counter(ask(deployed.aws)["core"] for _ in range(20))) == {0, 1}
    answers = [ask(deployed.aws, f"/cores/{core}/predict") for core in (0, 1)]
    assert [one["core"] for one in answers] == [0, 1] and answers[0]["text"] == answers[1]["text"]
    assert list(ask(deployed.aws, "/predictions_neuron_core_1/model_0", None)) == ["detail"]


def test_what_it_says_is_in_the_fleets_log(deployed: Deployed) -> None:
    group = names.log_group_of_job("local", names.QUESTION_ANSWERING_FLEET)
    found = deployed.aws.client("logs").describe_log_streams(logGroupName=group)["logStreams"]
    streams = {one["logStreamName"] for one in found}
    instance = deployed.host()["instance"]
    assert {f"{instance}/{name}" for name in ("boot", "server-0", "server-1", "nginx", "monitor")} <= streams


def test_a_killed_server_comes_back_and_the_others_answer_meanwhile(deployed: Deployed) -> None:
    deployed.docker(deployed.host()["instance"], "kill", "torchlift-server-0")
    assert {ask(deployed.aws)["core"] for _ in range(5)} == {1}
    eventually(lambda: status_of(deployed.aws, "/cores/0/readyz") == 200, SERVER_SECONDS)
    assert {ask(deployed.aws)["core"] for _ in range(20)} == {0, 1}


def test_a_terminated_instance_is_drained_ended_in_order_and_replaced(deployed: Deployed) -> None:
    first = deployed.host()
    deployed.aws.client("ec2").terminate_instances(InstanceIds=[first["instance"]])
    statuses = set()
    deadline = time.monotonic() + 240
    while deployed.host()["state"] != "in service" or deployed.host()["instance"] == first["instance"]:
        assert time.monotonic() < deadline, deployed.state()
        statuses.add(status_of(deployed.aws))
        time.sleep(0.1)
    assert statuses <= {200, 503}, "the load balancer asks none that comes or goes"
    assert ask(deployed.aws)["model"] == "model_0"
    eventually(lambda: "Stopping torchlift-fleet" in Path(first["log"]).read_text(), 90)
    stopped = re.findall(r"^Stopping torchlift-([a-z]+)", Path(first["log"]).read_text(), re.MULTILINE)
    assert stopped[-4:] == ["nginx", "server", "server", "fleet"], stopped
    eventually(lambda: not (state_folder(deployed.aws.state_dir) / first["instance"]).exists(), 90)
    # It signals three times in vain: the next update must not take that for its own host's.
    eventually(lambda: "the stack takes no signal now" in Path(deployed.host()["log"]).read_text(), 90)


def test_an_update_replaces_the_host_and_nobody_notices(deployed: Deployed) -> None:
    first = deployed.host()
    deployed.change(models=2)
    with asked_all_the_while(deployed.aws):
        deployed.cdk.deploy()
    assert deployed.host()["instance"] != first["instance"]
    assert {ask(deployed.aws)["model"] for _ in range(8)} == {"model_0", "model_1"}


def test_a_broken_update_is_rolled_back_with_its_reason_and_nobody_notices(deployed: Deployed) -> None:
    first = deployed.host()
    deployed.change(models=2, more=f'token_secret_arn = "{SECRET}"\n')
    with asked_all_the_while(deployed.aws), pytest.raises(CdkFailed, match=r"Received 1 FAILURE signal\(s\)"):
        deployed.cdk.deploy()
    (stack,) = deployed.aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    broken = deployed.boots()[-1]
    assert (broken["state"], broken["reason"]) == ("failed", f"the secret {SECRET} cannot be read")
    eventually(lambda: len(deployed.state()["fleets"]) == 1, 90)
    assert deployed.host()["instance"] == first["instance"] and deployed.host()["state"] == "in service"


def test_destroy_leaves_nothing(deployed: Deployed) -> None:
    deployed.cdk.destroy()
    delete_bootstrap(deployed.aws)
    # The host of an instance that has gone is still shut down, unit by unit.
    eventually(lambda: leftovers(deployed.before, snapshot(deployed.aws)).found == [], 90)
    assert deployed.state()["processes"] == []
    (left,) = [state_folder(deployed.aws.state_dir)]
    assert [path.name for path in left.glob("i-*")] == []
