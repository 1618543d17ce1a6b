"""The training image fine-tunes, as the job's instance runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from settings.images import base_image
from tests.containers.conftest import Yard, read_only
from tests.deploy import tiny

pytestmark = [pytest.mark.long, pytest.mark.images, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def image(yard: Yard) -> str:
    return yard.image("sentiment-training", base=base_image("pytorch-training"))


def test_it_is_what_sagemaker_and_ecr_take(yard: Yard, image: str) -> None:
    repository, _, tag = image.partition("/")[2].partition(":")
    found = yard.client("ecr").batch_get_image(repositoryName=repository, imageIds=[{"imageTag": tag}])["images"][0]
    manifest = json.loads(found["imageManifest"])
    assert manifest["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"
    assert manifest["layers"]


def test_nobody_is_root_in_it(yard: Yard, image: str) -> None:
    assert yard.run("docker", "run", "--rm", image, "id", "-u").strip().splitlines()[-1] == "10001"


def test_torch_compile_finds_its_compiler(yard: Yard, image: str) -> None:
    program = "import torch; print(torch.compile(lambda x: x * 2 + 1)(torch.ones(3)).tolist())"
    said = yard.run(*read_only(image, "python3", "-c", program))
    assert "[3.0, 3.0, 3.0]" in said


def test_it_fine_tunes_on_a_read_only_root(yard: Yard, image: str, tmp_path: Path) -> None:
    tiny.write_base_model(tmp_path / "inputs" / "base")
    tiny.write_data(tmp_path / "inputs" / "data")
    for name in ("output", "checkpoints"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    # As `aws s3 cp` writes them, and as the job's host hands them on.
    subprocess.run(["chmod", "-R", "a+rX", str(tmp_path)], check=True)
    command = [
        *("python3", "-m", "model_code.sentiment.train", "--base-model", "inputs/base", "--data", "inputs/data"),
        *("--output", "output/weights", "--checkpoints", "checkpoints", "--epochs", "1", "--batch-size", "16"),
    ]
    said = yard.run(*read_only(image, *command, folder=tmp_path))
    assert list(tmp_path.glob("output/**/model.safetensors")), said
