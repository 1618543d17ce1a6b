"""The small parts: the table of direct mode, the user data's environment, faults, ports."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from stand_in.executor import direct
from stand_in.executor.faults import Faults
from stand_in.executor.job_environment import NoJobEnvironment, from_user_data
from stand_in.executor.servers import free_ports

USER_DATA = """#!/bin/bash
cat >/etc/torchlift/job.env <<'TORCHLIFT_JOB_ENV'
A=plain
B='two words'
C='it'"'"'s'
D='a
b'
TORCHLIFT_JOB_ENV
echo TORCHLIFT_JOB_ENV
"""


def test_user_data_as_text_and_encoded() -> None:
    expected = {"A": "plain", "B": "two words", "C": "it's", "D": "a\nb"}
    assert from_user_data(USER_DATA) == expected
    assert from_user_data(base64.b64encode(USER_DATA.encode()).decode()) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#!/bin/bash\n", "has no here-document"),
        ("#!/bin/bash\ncat <<'TORCHLIFT_JOB_ENV'\nA=b\n", "no closing line"),
        ("#!/bin/bash\ncat <<'TORCHLIFT_JOB_ENV'\nA='b\nTORCHLIFT_JOB_ENV\n", "not quoted"),
        ("#!/bin/bash\ncat <<'TORCHLIFT_JOB_ENV'\nA b\nTORCHLIFT_JOB_ENV\n", "no NAME=value"),
    ],
)
def test_user_data_without_an_environment(text: str, problem: str) -> None:
    with pytest.raises(NoJobEnvironment, match=problem):
        from_user_data(text)


def test_every_image_and_job_is_in_the_table_or_refused() -> None:
    uri = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/torchlift-dev-sentiment-serving:0123456789abcdef"
    assert direct.server(uri).program == "TorchServe"
    by_cloudformation = "torchlift-dev-foundation-sentimentservingrepository1a2b3c-9xyz"
    assert (
        direct.server(f"123456789012.dkr.ecr.eu-west-1.amazonaws.com/{by_cloudformation}:tag").program == "TorchServe"
    )
    with pytest.raises(direct.NoDirectMode, match="'registry/sentiment-serving-not:1'"):
        direct.server("registry/sentiment-serving-not:1")
    with pytest.raises(direct.NoDirectMode, match=r"add a line to stand_in/executor/direct\.py"):
        direct.job("unheard-of")


def test_faults_happen_as_often_as_ordered(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    faults.inject("launch", "a", "no capacity", times=2)
    # Another process may order them, by the file.
    others = [Faults(tmp_path).take("launch", job) for job in ("a", "b", "a", "a")]
    assert others == ["no capacity", None, "no capacity", None]
    with pytest.raises(ValueError, match="one of provisioning, launch"):
        faults.inject("weather", "a", "rain")


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20
