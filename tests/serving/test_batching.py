"""TorchServe gives the handler several requests at once: each still gets the answer that it gets alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from model_code.archive import unpack

JSON, LINES = "application/json", "application/jsonlines"
SIZE = 8
NUMBER = re.compile(rb"\d\.\d+(?:e-\d+)?")


@pytest.fixture(scope="module")
def batching(
    archive: Path,
    toolkit_server: ModuleType,
    endpoint_environment: Callable[..., dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    """A server that waits up to half a second for eight requests."""
    folder = tmp_path_factory.mktemp("batching") / "model"
    unpack(archive, folder)
    with toolkit_server.serve(folder, **endpoint_environment(batch_size=SIZE, max_batch_delay_ms=500)) as running:
        yield running


def requests(tiny: ModuleType) -> list[tuple[bytes, dict[str, str]]]:
    """Mixed kinds; every fourth is refused, each for another reason."""
    bad: list[tuple[bytes, dict[str, str]]] = [
        (b'{"inputs": 1}', {"Content_Type": JSON}),
        (b"\xff", {"Content_Type": "text/plain"}),
        (b'"good"', {"Content_Type": "text/csv"}),
        (b'"good"', {"Content_Type": LINES, "Accept": "text/csv"}),
    ]
    texts = tiny.sentences(96, labels=3, seed=21)[0]
    made = []
    for number in range(24):
        three = texts[4 * number : 4 * number + 3]
        lines = "\n".join(json.dumps(text) for text in three).encode()
        made += [
            (json.dumps({"inputs": three}).encode(), {"Content_Type": JSON}),
            (lines, {"Content_Type": LINES}),
            (three[0].encode(), {"Content_Type": "text/plain", "Accept": LINES}),
            bad[number % len(bad)],
        ]
    return made


def test_batched_answers_are_those_of_one_by_one(server: Any, batching: Any, tiny: ModuleType) -> None:
    wanted = [server.invoke(body, **headers) for body, headers in requests(tiny)]
    with ThreadPoolExecutor(2 * SIZE) as pool:
        found = list(pool.map(lambda one: batching.invoke(one[0], **one[1]), requests(tiny)))
    assert [one.status for one in found] == [one.status for one in wanted]
    assert {one.status for one in wanted} == {200, 400, 415, 406}
    for ours, alone in zip(found, wanted, strict=True):
        assert ours.headers["Content-Type"] == alone.headers["Content-Type"]
        assert NUMBER.sub(b"#", ours.body) == NUMBER.sub(b"#", alone.body)
        # Other neighbours, other rounding.
        assert numbers(ours.body) == pytest.approx(numbers(alone.body), abs=1e-5)
    log = batching.log.read_text(errors="replace")
    assert f"batchSize: {SIZE}" in log
    # The worker's line for each batch that it gets.
    assert 0 < log.count("Backend received inference at") < len(found)


def numbers(body: bytes) -> list[float]:
    return [float(found) for found in NUMBER.findall(body)]
