"""The Triton image on a multi-model endpoint's terms: `serve`, /ping, models that come and go, not as root.

Its server listens on all addresses, so it has a network of its own, without a way out, and is asked from inside.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from model_code import archive
from model_code.text_encoding import client, model_config, repository
from settings.triton import triton_release
from tests.containers.conftest import Yard
from tests.serving.triton import models

pytestmark = [pytest.mark.long, pytest.mark.images, pytest.mark.timeout(1800)]
NAME = "torchlift-test-triton"
PORT = 8095
SEED = 7
LIMITS = client.Limits(max_batch=8, max_sequence=64)
ASK = """
import base64, http.client, json, sys
method, path, headers, body = json.loads(sys.argv[1])
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=120)
try:
    connection.request(method, path, base64.b64decode(body), headers)
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type", ""), base64.b64encode(answer.read()).decode()
except OSError as error:
    found = 0, str(error), ""
print(json.dumps(found))
"""


@dataclass
class Server:
    """The running container, in which `/opt/ml/models/<name>/model` are unpacked archives."""

    yard: Yard

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str, bytes]:
        """Status, content type and body; 0 when nothing listens."""
        request = [method, path, {name.replace("_", "-"): value for name, value in headers.items()}]
        text = json.dumps([*request, base64.b64encode(body).decode()])
        said = self.yard.run("docker", "exec", NAME, "python3", "-c", ASK, text, str(PORT))
        status, kind, answer = json.loads(said.strip().splitlines()[-1])
        return status, kind, base64.b64decode(answer)

    def send(self, target: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
        """As model_code.text_encoding.client asks."""
        more = {"Content_Type": content_type, "X_Amzn_SageMaker_Target_Model": target}
        return self.ask("POST", f"/models/{named(target)}/invoke", body, **more)

    def load(self, target: str) -> int:
        """Load the archive `target`, as SageMaker does; the status."""
        body = json.dumps({"model_name": named(target), "url": f"/opt/ml/models/{named(target)}/model"}).encode()
        more = {"Content_Type": "application/json", "X_Amzn_SageMaker_Target_Model": target}
        return self.ask("POST", "/models", body, **more)[0]

    def unload(self, target: str) -> int:
        return self.ask("DELETE", f"/models/{named(target)}", X_Amzn_SageMaker_Target_Model=target)[0]


def named(target: str) -> str:
    """SageMaker's name of a model: a hash."""
    return f"hash-of-{target.split('.')[0]}"


@pytest.fixture(scope="module")
def image(yard: Yard) -> str:
    return yard.image("triton", base=triton_release("25.09").image)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model for the CPU, as its archive is unpacked; its ONNX file beside it."""
    work = tmp_path_factory.mktemp("encoders")
    onnx_file = models.encoder(work / "encoder.onnx", SEED)
    packed, _ = repository.write_for_cpu(work, onnx_file, model_config.make("alike", models.engine(), preferred=[4, 8]))
    archive.unpack(packed, work / "models" / named("alike.tar.gz") / "model")
    for path in [work, *work.parents]:
        if path.name.startswith("pytest-"):
            path.chmod(0o755)
    work.chmod(0o755)
    return work


@pytest.fixture(scope="module")
def server(yard: Yard, image: str, folder: Path) -> Iterator[Server]:
    child = yard.start(
        *("docker", "run", "--rm", "--name", NAME, "--network", "none", "--read-only", "--tmpfs", "/tmp"),
        *("--volume", f"{folder}/models:/opt/ml/models:ro", "--env", "SAGEMAKER_MULTI_MODEL=true"),
        *("--env", f"SAGEMAKER_BIND_TO_PORT={PORT}", "--env", "SAGEMAKER_TRITON_LOG_VERBOSE=false", image, "serve"),
    )
    running = Server(yard)
    try:
        deadline = time.monotonic() + 240
        while "Started Sagemaker HTTPService" not in (said := child.log.read_text(errors="replace")):
            assert child.poll() is None and time.monotonic() < deadline, said[-3000:]
            time.sleep(0.5)
        yield running
    finally:
        yard.run("docker", "rm", "--force", "--ignore", NAME)
        child.stop()


def some_input() -> dict[str, Any]:
    """int32 [3, 11] each."""
    tokens = np.random.default_rng(1).integers(0, models.VOCABULARY, (3, 11), dtype=np.int32)
    return {"input_ids": tokens, "attention_mask": np.ones((3, 11), np.int32)}


def test_sagemaker_sees_what_the_image_can(yard: Yard, image: str) -> None:
    said = yard.engine.call("podman", "image", "inspect", "--format", "{{json .Labels}}", image, base=yard.environment)
    labels = json.loads(said)
    prefix = "com.amazonaws.sagemaker.capabilities"
    assert (labels[f"{prefix}.multi-models"], labels[f"{prefix}.accept-bind-to-port"]) == ("true", "true")


def test_it_is_not_root(yard: Yard, server: Server) -> None:
    assert yard.run("docker", "exec", NAME, "id", "-u").strip() == "1000"


def test_it_is_alive_without_a_model(server: Server) -> None:
    assert server.ask("GET", "/ping")[0] == 200


@pytest.mark.parametrize("binary", [True, False])
def test_a_model_is_loaded_answers_and_goes(server: Server, folder: Path, binary: bool) -> None:
    target, inputs = "alike.tar.gz", some_input()
    assert (server.load(target), server.load(target)) == (200, 409)
    answer = client.encode(server.send, target, inputs, limits=LIMITS, binary=binary)
    session = onnxruntime.InferenceSession(folder / "encoder.onnx", providers=["CPUExecutionProvider"])
    for output, right in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        np.testing.assert_array_equal(answer[output.name], right)
    assert (server.unload(target), server.unload(target)) == (200, 404)


def test_a_model_that_is_not_there_is_refused(server: Server) -> None:
    assert server.load("missing.tar.gz") == 400
