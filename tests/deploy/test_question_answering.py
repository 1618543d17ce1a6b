"""The question-answering fleet through the real CDK CLI: deployed, asked, replaced host by host, removed."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from settings import names
from stand_in.demo.cdk import Cdk
from stand_in.demo.teardown import delete_bootstrap
from stand_in.session import StandIn, stand_in
from stand_in.sweep import leftovers, snapshot
from tests.deploy import permissions
from tests.deploy.trap import Trap
from tests.model_code.question_answering.tiny_qa import write_model

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
PARAMETER = names.parameter_name("local", "question-answering", "url")
QUESTION = {"question": "where does it lie?", "context": "the old bridge lies over the river"}
SECTION = """
[question_answering]
model = "{model}"
instance_type = "inf2.xlarge"
min_instances = 1
max_instances = 2
num_models_per_server = {models}
batch_sizes = [1, 4]
lengths = [32, 64]
stride = 8
max_answer_tokens = 10
null_threshold = "none"
ami_parameter = "/aws/service/neuron/dlami/base/ubuntu-24.04/latest/image_id"
"""


def write_settings(path: Path, root: Path, *, model: Path, models: int = 1) -> None:
    """`deployments/local.toml` without its workloads, and with this one."""
    shared = (root / "deployments/local.toml").read_text().partition("[training]")[0]
    path.write_text(shared + SECTION.format(model=model, models=models))


def ask(aws: StandIn, path: str = "/predict", body: Any = QUESTION) -> Any:
    """Ask the address that clients look up."""
    url = str(aws.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"])
    data = json.dumps(body).encode() if body is not None else None
    # Past the proxy that the environment names.
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        connection.request("POST" if data else "GET", path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return json.load(response)


@contextmanager
def asked_all_the_while(aws: StandIn) -> Iterator[None]:
    """Nobody notices what the block does."""
    end, answers, failures = threading.Event(), 0, []

    def client() -> None:
        nonlocal answers
        while not end.wait(0.05):
            try:
                answers += ask(aws)["model"] != ""
            except (OSError, http.client.HTTPException, AssertionError) as error:
                failures.append(str(error))

    thread = threading.Thread(target=client)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert (failures, answers > 5) == ([], True)


def test_from_nothing_to_nothing(tmp_path: Path, root: Path, sprung_trap: Trap) -> None:
    settings, model = tmp_path / "local.toml", write_model(tmp_path / "model")
    write_settings(settings, root, model=model)
    with stand_in(region="us-west-2", state_dir=tmp_path / "stand_in", root=root) as aws:
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=root, deployment=str(settings), logs=tmp_path / "logs", timeout=600)
        cdk.bootstrap()
        cdk.deploy()
        state = aws.get("/_torchlift/state")
        assert {(job["job"], job["state"]) for job in state["jobs"]} == {
            (job, "succeeded") for job in names.JOBS if job.startswith(("question", "nginx", "neuron"))
        }
        (first,) = state["fleets"]
        assert set(Counter(ask(aws)["core"] for _ in range(20))) == {0, 1}
        assert list(ask(aws, "/predictions_neuron_core_1/model_0", None)) == ["detail"]

        # Another host with two models takes the place of the first.
        write_settings(settings, root, model=model, models=2)
        with asked_all_the_while(aws):
            cdk.deploy()
        (second,) = aws.get("/_torchlift/state")["fleets"]
        assert first["instance"] != second["instance"]
        assert {ask(aws)["model"] for _ in range(8)} == {"model_0", "model_1"}

        aws.get("/_torchlift/access")  # takes note of the roles that are there
        cdk.destroy()
        delete_bootstrap(aws)
        left = leftovers(before, snapshot(aws))
        assert left.found == []
        assert aws.get("/_torchlift/state")["processes"] == []

        roles = ("StartJobRole", "ImageRole", "CompileRole", "ModelsRole", "FleetAccessRole")
        permissions.check(aws.get("/_torchlift/access"), "question-answering", calls=50, roles=roles)
