"""Text encoding alone, by the real CDK CLI: from a model's folder to answers, a model more, and back to nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from model_code.text_encoding import client
from stand_in.demo.cdk import Cdk
from stand_in.demo.teardown import delete_bootstrap
from stand_in.demo.without import without_section
from stand_in.executor import triton
from stand_in.session import run, stand_in
from stand_in.sweep import leftovers, snapshot
from tests.deploy import permissions, tiny
from tests.deploy.encoders import Deployment
from tests.deploy.trap import Trap

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (triton.environment_folder(ROOT) / "bin" / "python").exists(), reason="`make` has not built .venvs/triton"
    ),
]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, root: Path, sprung_trap: Trap) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("multi-model")
    base_model = tiny.write_base_model(folder / "base-model")
    text = (root / "deployments/local.toml").read_text()
    for section in ("training", "sentiment", "question_answering"):
        text = without_section(text, section)
    settings = folder / "local.toml"
    settings.write_text(text.replace('"build/demo/base-model"', f'"{base_model}"'))
    with stand_in(region="us-west-2", state_dir=folder / "stand_in", root=root) as aws:
        before = snapshot(aws)
        cdk = Cdk(stand_in=aws, root=root, deployment=str(settings), logs=folder / "logs", timeout=400)
        cdk.bootstrap()
        yield Deployment(aws, cdk, settings, base_model, before)


def test_deploys_and_every_model_answers(deployment: Deployment) -> None:
    deployment.cdk.deploy()
    assert {job for job, state in deployment.jobs() if state == "succeeded"} >= {"text-encoding-engine", "triton-image"}
    for model in ("encoder-0", "encoder-1"):
        binary, text = (deployment.ask(model, binary=binary) for binary in (True, False))
        assert binary["last_hidden_state"].shape == (2, 16, 32)
        for name, array in binary.items():
            np.testing.assert_array_equal(array, text[name])


def test_an_added_model_is_served_without_a_deployment(deployment: Deployment, tmp_path: Path) -> None:
    jobs = deployment.jobs()
    other = tiny.write_base_model(tmp_path / "other", seed=1)
    build = [
        sys.executable, "-m", "model_code.text_encoding.build", "--device", "cpu", "--model", str(other),
        "--output", str(tmp_path / "built"), "--names", "other", "--opt-batch", "4", "--max-batch", "8",
        "--min-length", "16", "--opt-length", "32", "--max-length", "64",
    ]  # fmt: skip
    subprocess.run(build, cwd=ROOT, check=True, timeout=200, capture_output=True)
    archive = tmp_path / "built" / "archives" / "other.tar.gz"
    done = run(
        ["torchlift", "models", "add", str(deployment.settings), "other", "--archive", str(archive)],
        environment=deployment.aws.environment, cwd=ROOT, log=tmp_path / "add.log", timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    added, first = deployment.ask("other"), deployment.ask("encoder-0")
    assert not np.allclose(added["last_hidden_state"], first["last_hidden_state"], atol=1e-2)
    assert deployment.jobs() == jobs


def test_what_is_wrong_is_told_and_harms_nobody(deployment: Deployment) -> None:
    runtime = deployment.aws.client("sagemaker-runtime")
    with pytest.raises(runtime.exceptions.ClientError, match="requires a target model"):
        runtime.invoke_endpoint(EndpointName=deployment.parameter("endpoint"), Body=b"{}", ContentType=client.JSON)
    with pytest.raises(client.EncodingError, match="Failed to download model data"):
        deployment.ask("nobody")
    assert deployment.ask("encoder-1")


def test_destroy_leaves_nothing(deployment: Deployment) -> None:
    deployment.aws.get("/_torchlift/access")  # takes note of the roles that are there
    deployment.cdk.destroy()
    delete_bootstrap(deployment.aws)
    assert leftovers(deployment.before, snapshot(deployment.aws)).found == []
    assert deployment.aws.get("/_torchlift/state")["processes"] == []


def test_roles_were_allowed_every_call_and_each_spare_permission_has_a_reason(deployment: Deployment) -> None:
    roles = ("StartJobRole", "TritonRole", "BuilderRole", "EngineAccessRole", "ExecutionRole", "VerifyFunctionRole")
    permissions.check(deployment.aws.get("/_torchlift/access"), "text-encoding", calls=30, roles=roles)
