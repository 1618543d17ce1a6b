"""The benchmarks of text encoding measure what they say; how long it takes is nothing for a test."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import __main__ as program
from benchmarks import multi_model, payloads
from benchmarks.harness import Comparison
from model_code.text_encoding import client


@pytest.mark.parametrize("binary", [True, False])
def test_both_formats_carry_the_same_vectors(binary: bool) -> None:
    vectors = np.random.default_rng(1).standard_normal((3, payloads.HIDDEN), dtype=np.float32)
    found = client.parse(*payloads.answer(vectors, binary=binary))[payloads.OUTPUT]
    np.testing.assert_array_equal(found.astype(np.float32), vectors)


def test_payloads_are_measured_for_every_batch() -> None:
    for batch in (1, 8):
        found = payloads.run(batch, repeats=1, texts=16)
        assert found.ratio > 0 and f"{batch} to a request" in found.command


def test_an_id_names_itself_or_its_parts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = Comparison(ratio=1, unit="s", low=1, high=1, ours=1, other=1, repeats=1, command="")
    ran: list[str] = []
    ids = list(program.BENCHMARKS)
    monkeypatch.setattr(program, "BENCHMARKS", {id: lambda: nothing for id in ids})
    monkeypatch.setattr(program, "record", lambda id, _: ran.append(id))
    for only, expected in (("P8", ["P8a", "P8b", "P8c"]), ("P8b", ["P8b"]), ("P10", ["P10"]), ("", ids)):
        ran.clear()
        monkeypatch.setattr(sys, "argv", ["make bench", "--only", only])
        assert program.main() == 0 and ran == expected
    for only in ("P", "8a"):
        monkeypatch.setattr(sys, "argv", ["make bench", "--only", only])
        assert program.main() == 1 and f"ONLY={only}" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_real_triton_is_measured_cold_and_batching() -> None:
    assert multi_model.cold(repeats=1).ratio > 0
    assert multi_model.batching(repeats=1, requests=16).ratio > 0
