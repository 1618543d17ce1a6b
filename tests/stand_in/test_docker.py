"""What `docker` on the stand-in's machines makes of a command line."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stand_in.images import docker

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/builder:0123456789abcdef"


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that it calls; all of them succeed."""
    commands: list[list[str]] = []

    def call(command: list[str], **_: Any) -> int:
        commands.append(command)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setenv("TORCHLIFT_ENGINE", str(tmp_path / "engine"))
    for name in docker.PASSED_ON:
        monkeypatch.delenv(name, raising=False)
    return commands


def test_what_comes_after_the_image_is_the_commands_own(called: list[list[str]]) -> None:
    """Even where Docker has an option of that name."""
    command = ["build", "--device", "gpu", "--gpus=all", "--rm", "--log-opt", "x", "--ulimit", "y"]
    assert docker.main(["run", "--rm", "--env", "A=--device", IMAGE, *command]) == 0
    (podman,) = called
    assert podman[:2] == ["podman", "run"]
    assert podman[podman.index(IMAGE) + 1 :] == command
    assert podman[podman.index("--rm") + 1 : podman.index(IMAGE)] == ["--env=A=--device"]


def test_what_this_machine_lacks_is_left_out_and_said(
    called: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--gpus", "all", "--ulimit=memlock=-1", "--device", "/dev/neuron99", "--device=/dev/null", "--read-only"]
    assert docker.main(["run", *options, IMAGE, "true"]) == 0
    (podman,) = called
    assert podman[podman.index("--no-healthcheck") + 2 :] == ["--device=/dev/null", "--read-only", IMAGE, "true"]
    said = capsys.readouterr().err.splitlines()
    assert said == [f"stand-in: no {what}" for what in ("--gpus all", "--ulimit memlock=-1", "--device /dev/neuron99")]


def test_an_option_that_it_does_not_know_is_refused(called: list[list[str]]) -> None:
    """Whether it takes a value is not known, so neither is where the image is."""
    with pytest.raises(SystemExit, match="'--privileged' is not among what the stand-in does"):
        docker.main(["run", "--rm", "--privileged", IMAGE])
    assert called == []


def test_a_container_gets_of_its_machines_environment_what_is_listed(
    called: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "TORCHLIFT_DEVICE", "OMP_WAIT_POLICY", "TORCHLIFT_HANDLE"):
        monkeypatch.setenv(name, "value")
    assert docker.main(["run", IMAGE]) == 0
    (podman,) = called
    passed = [word for option, word in pairwise(podman) if option == "--env"]
    assert passed == ["AWS_ENDPOINT_URL", "TORCHLIFT_DEVICE", "OMP_WAIT_POLICY"]
