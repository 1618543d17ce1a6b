"""An image broken at each step; then again, twice in a row, and two at once. Docker's tags are final."""

from __future__ import annotations

import os
import signal

import pytest

from tests.scripts import breaking
from tests.scripts.breaking import finish, start
from tests.scripts.conftest import Quick
from tests.support.aws import ACCOUNT, REGION
from tests.support.waiting import eventually

REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
NAME = "test-image:0123456789abcdef"
MANIFEST = '{"mediaType": "application/vnd.docker.distribution.manifest.v2+json"}'
IMAGE = {
    "TORCHLIFT_RESULT": f"ecr://{REGISTRY}/{NAME}",
    "TORCHLIFT_IMAGE_DIR": "containers/test",
    "TORCHLIFT_PLATFORM": "linux/arm64",
    "BASE_IMAGE": "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.9",
}


def docker(bench: Quick) -> None:
    """A `docker` whose push makes a tag that cannot be made again."""
    ecr = bench.store / "ecr"
    bench.program("docker", f"""
case "$*" in
  login*) cat >/dev/null ;;
  push*) mkdir -p {ecr}; echo '{MANIFEST}' >"{ecr}/.$$"; name="${{2##*/}}"; sleep ${{PUSH_SECONDS:-0}}
    ln "{ecr}/.$$" "{ecr}/$name" || {{ echo "tag invalid: The image tag is immutable" >&2; exit 1; }} ;;
esac
""")  # fmt: skip


def images(bench: Quick) -> list[str]:
    return [path.name for path in (bench.store / "ecr").glob("[a-z]*")]


@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_an_image_broken_at_each_step(quick: Quick, breakage: str) -> None:
    docker(quick)
    breaking.count(quick, ("aws", "docker", "bash", "python3"), caller="build_image.sh", breakage=breakage)
    for step in breaking.sweep(quick):
        quick.empty()
        status, said = finish(start(quick, "scripts/build_image.sh", **IMAGE))
        calls = breaking.steps(quick)
        if step == 0:
            assert (status, images(quick)) == (0, [NAME]), said
            assert len(calls) >= 9, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {said}"
            assert images(quick) in ([], [NAME]), broken
            # Without buildx the classic builder does it.
            assert status != 0 or calls[step - 1] == "docker buildx version", broken
            breaking.break_at(quick, 0)
            status, again = finish(start(quick, "scripts/build_image.sh", **IMAGE))
            assert (status, images(quick)) == (0, [NAME]), f"{broken}, then {again}"


@pytest.mark.parametrize("program", ["aws", "docker", "python3"])
def test_a_program_that_is_missing_ends_a_build_without_an_image(quick: Quick, program: str) -> None:
    docker(quick)
    quick.program(program, breaking.MISSING)
    status, said = finish(start(quick, "scripts/build_image.sh", **IMAGE))
    assert status != 0 and images(quick) == [], said


def test_a_build_that_hangs_or_is_refused_leaves_no_image(quick: Quick) -> None:
    """The project's own timeout ends it."""
    docker(quick)
    real = (quick.bin / "docker").read_text()
    quick.program("docker", f'case "$1" in push) touch "{quick.folder}/begun"; sleep 300 ;; esac\n{real}')
    hanging = start(quick, "scripts/build_image.sh", **IMAGE)
    eventually((quick.folder / "begun").exists)
    os.killpg(hanging.pid, signal.SIGTERM)
    assert finish(hanging)[0] != 0 and images(quick) == []
    quick.program("docker", f'case "$1" in push) echo "connection refused" >&2; exit 1 ;; esac\n{real}')
    status, said = finish(start(quick, "scripts/build_image.sh", **IMAGE))
    assert status == 1 and "connection refused" in said and f"{NAME} cannot be pushed" in said
    docker(quick)
    assert finish(start(quick, "scripts/build_image.sh", **IMAGE))[0] == 0 and images(quick) == [NAME]


def test_an_image_twice_is_built_once(quick: Quick) -> None:
    docker(quick)
    assert finish(start(quick, "scripts/build_image.sh", **IMAGE))[0] == 0
    before = breaking.state(quick)
    status, said = finish(start(quick, "scripts/build_image.sh", **IMAGE))
    assert status == 0 and "nothing to build" in said
    assert breaking.state(quick) == before


def test_two_builds_of_one_image_at_once_both_end_with_it(quick: Quick) -> None:
    """The second push is refused, for the tag is there; and that is what it wanted."""
    docker(quick)
    both = [start(quick, "scripts/build_image.sh", **IMAGE, PUSH_SECONDS="3") for _ in range(2)]
    ends = [finish(process) for process in both]
    assert [status for status, _ in ends] == [0, 0], ends
    assert sum("is immutable" in said for _, said in ends) == 1, "they were at it at the same time"
    assert images(quick) == [NAME]
