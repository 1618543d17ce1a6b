"""Benchmarks of question answering: arithmetic, inputs, and the load, against a server that a test decides."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from benchmarks import qa_servers, question_answering
from benchmarks.__main__ import BENCHMARKS, chosen
from benchmarks.harness import of_pairs, of_values, record
from benchmarks.load import Load, LoadError, message, run
from stand_in.demo.data import copy_model


def test_a_ratio_of_rates_is_ours_by_other_repeat_by_repeat() -> None:
    found = of_pairs([(90.0, 100.0), (40.0, 50.0), (100.0, 100.0)], unit="rows per second", command="x")
    assert (found.ratio, found.low, found.high) == (0.9, 0.8, 1.0)
    assert (found.ours, found.other, found.repeats) == (90.0, 100.0, 3)
    assert "rows per second" in str(found)


def test_a_value_has_its_extremes_and_is_recorded(tmp_path: Path) -> None:
    found = of_values([3.0, 1.0, 2.0], unit="ms", command="x")
    record("P1c", found, tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text())["P1c"] == {
        "value": 2.0, "unit": "ms", "low": 1.0, "high": 3.0, "repeats": 3, "command": "x",
    }  # fmt: skip


def test_p99_is_exceeded_by_one_in_a_hundred() -> None:
    assert question_answering.p99([float(value) for value in range(1, 101)]) == 99
    assert question_answering.p99([1.0, 5.0]) == 5
    assert question_answering.p99([7.0]) == 7


def test_a_prefix_chooses_the_parts_of_a_benchmark() -> None:
    assert chosen("P1") == ["P1a-32", "P1a-128", "P1a-tiny", "P1a-tiny-16", "P1b", "P1b-32", "P1c"]
    assert chosen("P1a") == ["P1a-32", "P1a-128", "P1a-tiny", "P1a-tiny-16"]
    assert chosen("P1a-32") == ["P1a-32"]
    assert chosen("P10") == ["P10"] and chosen("P") == []
    assert chosen("") == list(BENCHMARKS)


def test_rows_have_exactly_the_tokens_that_are_asked_for(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    copy_model(tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for length in (32, 128):
        assert {len(tokenizer.encode(*pair).ids) for pair in qa_servers.rows_of(length, 20)} == {length}
    lengths = [len(tokenizer.encode(*pair).ids) for pair in qa_servers.mixed(300)]
    assert min(lengths) < 40 and 64 < max(lengths) <= 128


async def loaded(status: str, requests: list[str], *, probe: bool = False) -> tuple[Load, list[str]]:
    """Load a server that answers everything with `status`; also the first line of each request that came."""
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
            await reader.readexactly(int(length or 0))
            seen.append(head.partition(b" HTTP")[0].decode())
            await asyncio.sleep(0.01)
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await run(port, [message(line) for line in requests], connections=3, probe=probe), seen


def test_every_request_is_sent_once_and_health_is_asked_meanwhile() -> None:
    load, seen = asyncio.run(loaded("200 OK", ["/one?x=1", '{"question": "é"}', "/three", "/four"], probe=True))
    assert len(load.milliseconds) == 4 and load.probes
    assert sorted(line for line in seen if line != "GET /healthz") == [
        "GET /four", "GET /one?x=1", "GET /three", "POST /predict",
    ]  # fmt: skip


def test_an_answer_that_is_not_200_ends_the_load() -> None:
    with pytest.raises(LoadError, match="503"):
        asyncio.run(loaded("503 Service Unavailable", ["/one"]))


def test_the_picture_shows_every_step(tmp_path: Path) -> None:
    loads = [Load(seconds=2.0, milliseconds=[10.0, 20.0, 30.0], probes=[1.0, 2.0])]
    rows = {"original": question_answering.summary(loads), "ours": question_answering.summary(loads)}
    assert rows["ours"] == {"rows_per_second": 1.5, "p50_ms": 20.0, "p99_ms": 30.0, "healthz_p99_ms": 2.0}
    question_answering.show(rows, tmp_path / "steps")
    assert json.loads((tmp_path / "steps.json").read_text()) == rows
    assert (tmp_path / "steps.svg").read_text().startswith("<?xml")
