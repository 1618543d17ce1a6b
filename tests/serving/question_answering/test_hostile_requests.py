"""Requests made from the OpenAPI description: valid ones are answered, the others refused, and nothing breaks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from tests.serving.question_answering.qa_server import Server

PATHS = (("POST", "/predict"), ("POST", "/invocations"), ("GET", "/predictions_neuron_core_{core}/{model}"))
DELIBERATE = {503, 504}


def storm(server: Server, count: int) -> Counter[tuple[str, int]]:
    """Send `count` requests, half of them valid by the description; return how often each mode got each status."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
    seen: Counter[tuple[str, int]] = Counter()
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        for method, path in PATHS:
            send(schema[path][method], mode, count // 2 // len(PATHS), seen)
    return seen


def send(operation: Any, mode: GenerationMode, count: int, seen: Counter[tuple[str, int]]) -> None:
    @settings(
        max_examples=count, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        if mode is GenerationMode.POSITIVE:
            name_what_is_there(case)
        response = case.call(timeout=60)
        seen[mode.value, response.status_code] += 1
        judge(case, response, valid=mode is GenerationMode.POSITIVE)

    one()


def name_what_is_there(case: Any) -> None:
    """No description can say which models there are, so made-up names give way to real ones."""
    if case.path_parameters:
        case.path_parameters = {"core": "11", "model": "model_1"}
    if isinstance(case.body, dict):
        for one in (case.body, *(case.body.get("inputs") or ())):
            if one.get("model") is not None:
                one["model"] = "model_0"


def judge(case: Any, response: Any, *, valid: bool) -> None:
    status = response.status_code
    said = (case.method, case.path, status, response.text[:300])
    assert status in DELIBERATE or status == 200 if valid else 400 <= status < 500 or status in (200, *DELIBERATE), said
    # What is no HTTP is refused by the parser, before there is a request that could have an id.
    if status != 200 and response.text != "Invalid HTTP request received.":
        document = response.json()
        assert set(document) == {"error", "request_id"} and "Traceback" not in response.text, said


def test_a_thousand_requests(server: Server) -> None:
    seen = storm(server, 1_000)
    assert sum(seen.values()) >= 950
    assert seen["positive", 200] > 350
    assert sum(count for (mode, status), count in seen.items() if mode == "negative" and 400 <= status < 500) > 400
    assert server.ask("GET", "/readyz").status == 200


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ten_thousand_requests(server: Server) -> None:
    assert sum(storm(server, 10_000).values()) >= 9_500
    assert server.ask("GET", "/readyz").status == 200
