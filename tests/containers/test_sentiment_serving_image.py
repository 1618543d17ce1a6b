"""The Graviton image answers as SageMaker asks: `serve`, /ping, /invocations, and the model at /opt/ml/model."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_code.archive import unpack
from model_code.sentiment import train
from model_code.sentiment.package import package
from settings.images import base_image
from tests.containers.conftest import Yard
from tests.deploy import tiny

pytestmark = [pytest.mark.long, pytest.mark.images, pytest.mark.timeout(1800)]
PORT = 8080
"""The toolkit's own, in a container that shares the host's network."""
NAME = "torchlift-test-sentiment-serving"


@pytest.fixture(scope="module")
def image(yard: Yard) -> str:
    return yard.image("sentiment-serving", base=base_image("pytorch-inference-arm64"), platform="linux/arm64")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuned model, packed and unpacked as SageMaker does."""
    work = tmp_path_factory.mktemp("serving")
    arguments = {
        "base-model": tiny.write_base_model(work / "base"),
        "data": tiny.write_data(work / "data"),
        "output": work / "weights",
        "checkpoints": work / "checkpoints",
        "epochs": 1,
    }
    assert train.main([word for name, value in arguments.items() for word in (f"--{name}", str(value))]) == 0
    package(weights=work / "weights", output=work / "model.tar.gz")
    unpack(work / "model.tar.gz", work / "model")
    for path in [work, *work.parents]:
        if path.name.startswith("pytest-"):
            path.chmod(0o755)
    return work / "model"


@pytest.fixture(scope="module")
def running(yard: Yard, image: str, model: Path, fixed_ports: None) -> Iterator[None]:
    child = yard.start(
        *("docker", "run", "--rm", "--name", NAME, "--volume", f"{model}:/opt/ml/model:ro"),
        *("--env", "SAGEMAKER_BIND_TO_PORT=8080", "--env", "SAGEMAKER_TS_MIN_WORKERS=1"),
        *("--env", "SAGEMAKER_TS_MAX_WORKERS=1", "--env", "SAGEMAKER_REGION=us-west-2", image, "serve"),
    )
    try:
        deadline = time.monotonic() + 240
        while asked("/ping")[0] != 200:
            assert child.poll() is None, child.log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, child.log.read_text(errors="replace")[-3000:]
            time.sleep(1)
        yield
    finally:
        yard.run("docker", "rm", "--force", NAME)
        child.stop()


def asked(path: str, document: object = None) -> tuple[int, bytes]:
    """Status and body; 0 when nothing listens yet."""
    body = json.dumps(document).encode() if document is not None else None
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def test_the_manifest_names_the_platform(yard: Yard, image: str) -> None:
    repository, _, tag = image.partition("/")[2].partition(":")
    found = yard.client("ecr").batch_get_image(repositoryName=repository, imageIds=[{"imageTag": tag}])["images"][0]
    assert json.loads(found["imageManifest"])["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"
    said = yard.engine.call("podman", "image", "inspect", "--format", "{{.Architecture}}", image, base=yard.environment)
    assert said.strip() == "arm64"


def test_it_judges_texts(running: None) -> None:
    deadline = time.monotonic() + 120  # /ping answers before a worker does
    status, body = asked("/invocations", {"inputs": ["the film was good 1", "the meal was awful 2"]})
    while status != 200 and time.monotonic() < deadline:
        time.sleep(1)
        status, body = asked("/invocations", {"inputs": ["the film was good 1", "the meal was awful 2"]})
    assert status == 200, body
    answers = json.loads(body)
    assert [{one["label"] for one in answer} for answer in answers] == [{"negative", "positive"}] * 2
    assert all(abs(sum(one["score"] for one in answer) - 1) < 1e-3 for answer in answers)


def test_it_is_not_root(yard: Yard, running: None) -> None:
    assert yard.run("docker", "exec", NAME, "id", "-u").strip() == "10002"
