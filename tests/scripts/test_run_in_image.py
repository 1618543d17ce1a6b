"""A program run in an image that another build made: pulled by the build's own name, closed off, on its work folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scripts.conftest import Workbench

SCRIPT = "containers/question-answering-trace/run.sh"
REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
IMAGE = f"{REGISTRY}/question-answering-trace:0123456789abcdef"


def make(bench: Workbench, *, fails: str = "nothing", aws: str = "echo password") -> None:
    bench.program("aws", f'echo "$*" >>"{bench.folder}/aws.log"; {aws}')
    bench.program(
        "docker",
        f"""
echo "$*" >>"{bench.folder}/docker.log"
case "$1" in login) cat >"{bench.folder}/password" ;; esac
[ "$1" != {fails} ]
""",
    )


def calls(bench: Workbench, name: str) -> list[str]:
    log = bench.folder / f"{name}.log"
    return log.read_text().splitlines() if log.exists() else []


def test_a_program_runs_in_the_image_without_a_network(bench: Workbench) -> None:
    make(bench)
    done = bench.run(SCRIPT, "python3", "-m", "trace", "two words", TORCHLIFT_IMAGE=IMAGE)
    assert done.returncode == 0, done.stderr
    # The image's region, wherever the build runs.
    assert calls(bench, "aws") == ["ecr get-login-password --region eu-west-1"]
    assert (bench.folder / "password").read_text() == "password\n"
    login, pull, run = calls(bench, "docker")
    assert login == f"login --username AWS --password-stdin {REGISTRY}"
    assert pull == f"pull --quiet {IMAGE}"
    for option in (
        "--rm",
        "--network none",
        f"--user {os.getuid()}:{os.getgid()}",  # or what it writes could not be published
        "--env HOME=/tmp",  # that user has no home
        f"--volume {Path.cwd()}:/opt/torchlift/work",
        "--entrypoint python3",
    ):
        assert f" {option} " in run
    assert run.endswith(f" {IMAGE} -m trace two words")


@pytest.mark.parametrize("step", ["login", "pull", "run"])
def test_each_step_that_fails_ends_it(bench: Workbench, step: str) -> None:
    make(bench, fails=step)
    assert bench.run(SCRIPT, "python3", TORCHLIFT_IMAGE=IMAGE).returncode != 0
    assert calls(bench, "docker")[-1].startswith(step), "nothing comes after it"


def test_no_password_is_no_login(bench: Workbench) -> None:
    make(bench, aws="exit 1")
    assert bench.run(SCRIPT, "python3", TORCHLIFT_IMAGE=IMAGE).returncode != 0
    assert "pull" not in " ".join(calls(bench, "docker"))


def test_without_an_image_nothing_is_called(bench: Workbench) -> None:
    make(bench)
    done = bench.run(SCRIPT, "python3", TORCHLIFT_IMAGE="")
    assert done.returncode != 0 and "TORCHLIFT_IMAGE" in done.stderr
    assert calls(bench, "docker") == calls(bench, "aws") == []
