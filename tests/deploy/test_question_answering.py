"""The question-answering fleet through the real CDK CLI: deployed, asked, replaced host by host, removed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from settings import names
from stand_in.demo.cdk import Cdk
from stand_in.demo.teardown import delete_bootstrap
from stand_in.session import stand_in
from stand_in.sweep import leftovers, snapshot
from tests.deploy import permissions
from tests.deploy.question_answering import ask, asked_all_the_while, write_settings
from tests.deploy.trap import Trap
from tests.model_code.question_answering.tiny_qa import write_model

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


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
