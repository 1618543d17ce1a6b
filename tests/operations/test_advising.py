"""`torchlift advise`: a table for people, JSON for programs, and nothing asked of AWS."""

from __future__ import annotations

import json

import pytest

from operations.cli import main


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_people_see_what_fits_and_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--models-per-core", "2"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "2 models a core, 420 MiB of weights, 9 shapes" in printed
    words = " ".join(printed.replace("│", " ").split())
    assert "inf2.xlarge 2 1 4 A server needs 8.4 GiB of" in words and "At most 1" in words
    assert "inf2.48xlarge 24 4 16 Fits. At most 2" in words and "No room to load" in words


def test_programs_get_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--weights-mib", "85.5", "--shapes", "4", "--json"]) == 0
    found = {one["instance_type"]: one for one in json.loads(capsys.readouterr().out)}
    assert len(found) == 4 and found["inf2.24xlarge"]["devices"] == 6
    assert found["inf2.xlarge"]["host_mib_needed"] == 1024 + 342 and found["inf2.xlarge"]["room_to_change"]


@pytest.mark.parametrize("option", ["--models-per-core", "--weights-mib", "--shapes"])
def test_nothing_is_not_advised(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", option, "0"]) == 1
    assert capsys.readouterr().err == f"torchlift advise: {option} must be above 0.\n"
