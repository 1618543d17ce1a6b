"""Valid and hostile requests, mixed, against the real TorchServe: right answers, polite refusals, nothing worn out."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from model_code.sentiment.classifier import Classifier

# How far a worker's memory may grow from the first third to the end. It is measured only after every kind of
# request has come up many times; the largest single request holds 3 MB.
GROWTH_BYTES = 24 * 2**20
MARGIN = 0.001


@pytest.fixture(scope="module")
def known(weights: Path, tiny: ModuleType) -> dict[str, str]:
    """Texts and their best labels, where no rounding could turn them round."""
    model = Classifier(weights)
    texts = [*tiny.sentences(300, labels=3, seed=3)[0], "good \U0001f600 caf\u00e9", "\u597d good", 'a "good" \\ film']
    found = {}
    for text, row in zip(texts, model.scores(texts), strict=True):
        first, second, *_ = sorted(row, reverse=True)
        if first - second > MARGIN:
            found[text] = model.labels[row.index(first)]
    assert len(found) > 100 and len(set(found.values())) > 1
    return found


def workers(server: Any) -> list[psutil.Process]:
    found = [
        one
        for one in server.processes()
        if one.status() != psutil.STATUS_ZOMBIE and any("model_service_worker" in part for part in one.cmdline())
    ]
    assert found
    return found


def check(case: Any, reply: Any) -> None:
    said = f"{case.name}: {case.body[:200]!r} {case.headers!r}"[:500]
    assert reply.status in case.statuses, f"{said} got {reply.status} {reply.body[:300]!r}"
    assert b"Traceback" not in reply.body and b'File "' not in reply.body, said
    if reply.status != 200:
        assert 400 <= reply.status < 500 and reply.kind == "application/json", said
        document = json.loads(reply.body)
        assert set(document) == {"error"}, said
        assert document["error"].endswith(".") and "\n" not in document["error"] and len(document["error"]) < 300, said
    elif case.labels:
        assert reply.kind == case.answer, said
        rows = [json.loads(line) for line in reply.body.split(b"\n")]
        rows = rows if case.answer == "application/jsonlines" else rows[0]
        assert [row[0]["label"] for row in rows] == case.labels, said
        assert {len(row) for row in rows} == {min(case.top_k or 3, 3)}, said


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_mixed_requests(server: Any, hostile: ModuleType, known: dict[str, str], count: int) -> None:
    cases = hostile.Requests(known, seed=20_000 + count).make(count)
    assert sum(case.name == "valid" for case in cases) == count / 2
    log_start = len(server.log.read_bytes())
    before = {one.pid for one in workers(server)}

    def throw(part: list[Any]) -> int:
        with ThreadPoolExecutor(4) as pool:
            for case, reply in zip(part, pool.map(lambda case: hostile.send(server.url, case), part), strict=True):
                check(case, reply)
        return sum(one.memory_info().rss for one in workers(server))

    third = throw(cases[: count // 3])
    end = throw(cases[count // 3 :])
    assert {one.pid for one in workers(server)} == before
    assert end - third < GROWTH_BYTES, f"grew from {third >> 20} MiB to {end >> 20} MiB"
    log = server.log.read_bytes()[log_start:]
    assert b"Traceback" not in log and b"died" not in log, log[log.find(b"Traceback") :][:3000]


def test_what_torchserve_answers_itself_is_known(server: Any, hostile: ModuleType) -> None:
    """Before any code of ours: not in our words, but never with a traceback, and the worker lives on."""
    before = {one.pid for one in workers(server)}
    for name, (request, status, holds) in hostile.FRONT_END.items():
        reply = hostile.send_raw(server.url, request)
        assert reply.status == status, f"{name}: {reply}"
        assert (holds in reply.body) if holds else reply.body == b"", f"{name}: {reply}"
        assert b"\tat " not in reply.body, name
    assert server.invoke(b'{"inputs": "good"}', Content_Type="application/json").status == 200
    assert {one.pid for one in workers(server)} == before
