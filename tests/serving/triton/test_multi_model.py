"""The real Triton behind its SageMaker front end: SageMaker's multi-model contract, and that answers are the model's.

Not shown here, since it takes a GPU: that TensorRT loads an engine, its speed, running out of GPU memory (507).
"""

from __future__ import annotations

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest

from model_code.text_encoding import client
from model_code.text_encoding.client import EncodingError, Limits

LIMITS = Limits(max_batch=8, max_sequence=64)
SPARE = "enc-0.tar.gz"
TARGETS = [f"enc-{seed}.tar.gz" for seed in (1, 2, 3)]


def some_input(seed: int, batch: int = 2, sequence: int = 16) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, sequence + 1, (batch, 1))
    tokens = random.integers(0, 50, (batch, sequence), dtype=np.int32)
    return {"input_ids": tokens, "attention_mask": (np.arange(sequence) < lengths).astype(np.int32)}


def wanted(models: ModuleType, seed: int, inputs: dict[str, Any]) -> dict[str, Any]:
    """What model `seed` answers, from its table."""
    hidden = models.weights(seed)[inputs["input_ids"]] * inputs["attention_mask"][..., None]
    return {"last_hidden_state": hidden, "pooler_output": hidden.sum(1)}


def send(endpoint: Any) -> client.Send:
    return client.loopback(endpoint.url, endpoint.path)


def test_load_invoke_unload_and_their_statuses(endpoint: Any) -> None:
    server, target = endpoint.server, SPARE
    inputs = some_input(0)
    body, content_type = client.build(inputs)
    headers = {"Content-Type": content_type}
    assert server.request("GET", "/ping").status == 200, "without a model the container is healthy"
    assert server.invoke(endpoint.name(target), body, headers, target=target).status == 404
    folder = endpoint.unpacked(target)
    assert endpoint.load(target, folder).status == 200
    assert endpoint.load(target, folder).status == 409
    assert server.request("GET", f"/models/{endpoint.name(target)}").status == 200
    assert server.invoke(endpoint.name(target), body, headers, target=target).status == 200
    assert endpoint.unload(target).status == 200
    assert endpoint.unload(target).status == 404
    assert server.invoke(endpoint.name(target), body, headers, target=target).status == 404
    assert endpoint.load(target).status == 200, "a model may come back"
    assert endpoint.unload(target).status == 200


def test_binary_json_and_the_model_agree(loaded: Any, models: ModuleType) -> None:
    inputs = some_input(1, batch=3, sequence=11)
    binary = client.encode(send(loaded), TARGETS[1], inputs, limits=LIMITS)
    text = client.encode(send(loaded), TARGETS[1], inputs, limits=LIMITS, binary=False)
    right = wanted(models, 2, inputs)
    assert set(binary) == set(text) == set(right)
    for name, array in right.items():
        assert binary[name].dtype == text[name].dtype == np.float32
        np.testing.assert_allclose(binary[name], array, atol=1e-5)
        np.testing.assert_array_equal(binary[name], text[name])
    only = client.encode(send(loaded), TARGETS[1], inputs, limits=LIMITS, outputs=["pooler_output"])
    np.testing.assert_array_equal(only["pooler_output"], binary["pooler_output"])
    assert list(only) == ["pooler_output"]


def test_the_content_type_names_the_header_on_both_ways(loaded: Any) -> None:
    body, content_type = client.build(some_input(2), outputs=["pooler_output"])
    size = int(content_type.removeprefix(client.BINARY))
    assert [one["name"] for one in json.loads(body[:size])["inputs"]] == ["input_ids", "attention_mask"]
    status, answer_type, answer = send(loaded)(TARGETS[0], body, content_type)
    assert status == 200 and answer_type.startswith(client.BINARY)
    assert json.loads(answer[: int(answer_type.removeprefix(client.BINARY))])["model_name"] == TARGETS[0]
    wrong = send(loaded)(TARGETS[0], body, f"{client.BINARY}{size - 1}")
    assert wrong[0] == 400


def test_no_wrong_model_ever_answers(loaded: Any, models: ModuleType) -> None:
    work = [(TARGETS[number % 3], some_input(number, batch=1 + number % 3)) for number in range(60)]
    answers = client.encode_all(send(loaded), work, limits=LIMITS, at_once=6)
    for (target, inputs), answer in zip(work, answers, strict=True):
        seed = int(target[4])
        np.testing.assert_allclose(answer["pooler_output"], wanted(models, seed, inputs)["pooler_output"], atol=1e-5)
        assert np.unique(answer["last_hidden_state"][..., 0][inputs["attention_mask"] == 1]).tolist() == [seed]


def test_requests_are_batched_together(loaded: Any) -> None:
    def statistics() -> tuple[int, int]:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{loaded.server.http_port}/v2/models/{TARGETS[2]}/stats", timeout=10
        ) as answer:
            (found,) = json.load(answer)["model_stats"]
        return found["inference_count"], found["execution_count"]

    before = statistics()
    client.encode_all(send(loaded), [(TARGETS[2], some_input(n)) for n in range(16)], limits=LIMITS, at_once=8)
    inferences, executions = (after - start for after, start in zip(statistics(), before, strict=True))
    assert inferences == 32 and executions < 16


def test_refusals_come_with_their_reason_and_do_no_harm(loaded: Any, models: ModuleType) -> None:
    wide = Limits(max_batch=99, max_sequence=99)
    with pytest.raises(EncodingError, match=r"batch-size must be <= 8") as found:
        client.encode(send(loaded), TARGETS[0], some_input(0, batch=9), limits=wide)
    assert found.value.status == 400
    with pytest.raises(EncodingError, match="no such model") as found:
        client.encode(send(loaded), "other.tar.gz", some_input(0), limits=LIMITS)
    assert found.value.status == 404
    for array, reason in ((np.zeros((2, 16), np.int64), "INT64"), (np.zeros((2, 16, 2), np.int32), "shape")):
        body = {
            "inputs": [
                {"name": name, "shape": list(array.shape), "datatype": str(array.dtype).upper(), "data": array.tolist()}
                for name in ("input_ids", "attention_mask")
            ]
        }
        status, _, said = send(loaded)(TARGETS[0], json.dumps(body).encode(), client.JSON)
        assert status == 400 and reason in said.decode()
    assert send(loaded)(TARGETS[0], b"{", client.JSON)[0] == 400
    inputs = some_input(3)
    answer = client.encode(send(loaded), TARGETS[0], inputs, limits=LIMITS)
    np.testing.assert_allclose(answer["pooler_output"], wanted(models, 1, inputs)["pooler_output"], atol=1e-5)


def test_a_corrupt_model_is_refused_with_its_reason_and_the_others_live_on(loaded: Any) -> None:
    for number, (file, content, reason) in enumerate(
        [
            ("1/model.onnx", "no model", "model.onnx"),
            ("config.pbtxt", 'name: "enc-1"\nbackend: "python"\nmax_batch_sise: 8\n', "max_batch_sise"),
            ("config.pbtxt", 'name: "enc-1"\nplatform: "tensorrt_plan"\nmax_batch_size: 8\n', "tensorrt"),
        ]
    ):
        target = f"spoilt-{number}.tar.gz"
        folder = loaded.unpacked("enc-1.tar.gz")
        (folder / "enc-1" / file).write_text(content)
        answer = loaded.load(target, folder)
        assert answer.status == 400, answer.body
        log = loaded.server.child.log.read_text(errors="replace")
        assert reason in answer.body.decode() or reason in log
    assert client.encode(send(loaded), TARGETS[0], some_input(4), limits=LIMITS)


def test_first_use_by_many_at_once_loads_once(endpoint: Any) -> None:
    """As far as Triton goes: of simultaneous loads one wins, the others are told that it is there."""
    folder = endpoint.unpacked(SPARE)
    with ThreadPoolExecutor(6) as pool:
        statuses = sorted(answer.status for answer in pool.map(lambda _: endpoint.load(SPARE, folder), range(6)))
    assert statuses == [200, *[409] * 5]
    assert client.encode(send(endpoint), SPARE, some_input(5), limits=LIMITS)
    assert endpoint.unload(SPARE).status == 200


def test_every_socket_is_on_loopback(loaded: Any) -> None:
    launcher = psutil.Process(loaded.server.child.pid)
    processes = [launcher, *launcher.children(recursive=True)]
    listening = [
        connection.laddr
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {address.port for address in listening} >= {loaded.server.port, loaded.server.http_port}
    assert {address.ip for address in listening} == {"127.0.0.1"}
