"""A job broken at each step; then again, twice in a row, and two at once.

Whatever happens: the step that failed is named, what is published is whole and of one run, and the next run makes it
good.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.scripts import breaking
from tests.scripts.breaking import finish, start
from tests.scripts.conftest import REPO_ROOT, Quick
from tests.support.waiting import eventually

RESULT = {"model.bin": "data\n", "config.json": "{}\n"}
# The second try finds what the first one left: what is half written must not be published.
COMMAND = """ls output inputs; touch "output/half-written-$$"
cat inputs/data/text >output/model.bin; echo {} >output/config.json; rm "output/half-written-$$\""""
OF_JOB = ("mkdir", "rm", "find", "aws", "python3", "bash", "tee", "cat", "flock", "grep", "sed", "tail", "tr")


@pytest.fixture
def job(quick: Quick) -> Quick:
    quick.environment |= {
        "TORCHLIFT_COMMAND": COMMAND,
        "TORCHLIFT_INPUTS": f"data=plain+s3://{quick.bucket}/mine/",
    }
    return quick


def run_job(bench: Quick, **variables: str) -> tuple[int, str]:
    return finish(start(bench, "scripts/run_job.sh", **variables))


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_a_job_broken_at_each_step(job: Quick, breakage: str) -> None:
    breaking.count(job, OF_JOB, caller="run_job.sh", breakage=breakage)
    for step in breaking.sweep(job):
        job.empty()
        job.put("mine/text", "data\n")
        status, said = run_job(job)
        calls = breaking.steps(job)
        if step == 0:
            assert (status, job.published()) == (0, RESULT), said
            assert len(calls) >= 12, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {said}"
            assert job.published() in ({}, RESULT), broken
            # Only its log may break without the job.
            spared = breakage == breaking.FAILS and calls[step - 1].startswith("tee ")
            assert (status == 0) == spared, broken
            if (
                breakage == breaking.FAILS
                and not spared
                and not calls[step - 1].startswith(("mkdir", "flock", "rm -f"))
            ):
                assert ": exit 1" in (job.work / "reason.txt").read_text(), broken
            breaking.break_at(job, 0)
            status, again = run_job(job)
            assert (status, job.published()) == (0, RESULT), f"{broken}, then {again}"
            assert not [path for path in (job.work / "inputs").iterdir() if path.name != "data"], broken


@pytest.mark.parametrize("program", ["aws", "python3", "bash", "tee", "find", "flock", "grep"])
def test_a_program_that_is_missing_ends_a_job_without_a_result(job: Quick, program: str) -> None:
    job.put("mine/text", "data\n")
    job.program(program, breaking.MISSING)
    status, said = run_job(job)
    if program in ("tee", "grep"):
        # What only shows and explains may be missing.
        assert (status, job.published()) == (0, RESULT), said
    else:
        assert status != 0 and job.published() == {}, said


def test_a_job_that_hangs_is_ended_and_the_next_run_is_whole(job: Quick) -> None:
    """Its deadline is that of who runs it: `timeout` on an instance, the project's own in CodeBuild."""
    job.put("mine/text", "data\n")
    hanging = subprocess.run(
        ["timeout", "--kill-after=1", "3", "bash", str(REPO_ROOT / "scripts/run_job.sh")],
        env={**job.environment, "TORCHLIFT_COMMAND": "echo half >output/model.bin; touch begun; sleep 300"},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert hanging.returncode == 124 and job.published() == {}
    assert (job.work / "begun").exists()
    assert run_job(job)[0] == 0 and job.published() == RESULT


def test_a_disk_that_is_full_fails_the_step_and_says_so(job: Quick) -> None:
    job.put("mine/text", "data\n")
    script = f"ulimit -f 20; exec bash {REPO_ROOT}/scripts/run_job.sh"
    full = {"TORCHLIFT_COMMAND": "trap '' XFSZ; echo epoch 7; head -c 100000 /dev/zero >output/model.bin"}
    done = subprocess.run(
        ["bash", "-c", script], env={**job.environment, **full}, capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0 and job.published() == {}
    said = (job.work / "reason.txt").read_text()
    assert said.startswith("run: exit 1: epoch 7") and "File too large" in said
    assert run_job(job)[0] == 0 and job.published() == RESULT


def test_a_log_that_cannot_be_written_does_not_end_a_job(job: Quick) -> None:
    job.put("mine/text", "data\n")
    job.work.mkdir()
    (job.work / "step.log").symlink_to("/dev/full")
    status, said = run_job(job)
    assert (status, job.published()) == (0, RESULT), said
    assert "model.bin" not in said and "published" in said, "and it is shown"


def test_a_reason_is_told_where_it_cannot_be_kept(job: Quick) -> None:
    job.put("mine/text", "data\n")
    status, said = run_job(job, TORCHLIFT_COMMAND="rm -f reason.txt; ln -s /dev/full reason.txt; echo why; exit 5")
    assert status == 5 and "run: exit 5: why" in said


def test_a_command_that_says_nothing_keeps_its_exit_code(job: Quick) -> None:
    job.put("mine/text", "data\n")
    status, said = run_job(job, TORCHLIFT_COMMAND="exec 5>&1; exit 42")
    assert status == 42, said
    assert (job.work / "reason.txt").read_text() == "run: exit 42:"


def test_a_store_that_refuses_is_an_error_of_that_step(job: Quick) -> None:
    job.put("mine/text", "data\n")
    job.program("aws", "echo 'Could not connect to the endpoint URL' >&2; exit 255")
    status, said = run_job(job)
    assert status != 0 and job.published() == {}
    assert "probe: exit 1: Could not connect to the endpoint URL" in said


def test_what_is_published_is_no_failure_because_something_stays_behind(job: Quick) -> None:
    job.put("mine/text", "data\n")
    job.program(
        "rm", 'case "$*" in "-rf "*/tmp.*) [ -e "${@: -1}/manifest.json" ] && exit 1 ;; esac; exec "$REAL" "$@"'
    )
    status, said = run_job(job)
    assert (status, job.published()) == (0, RESULT) and "left behind: " in said, said


def test_a_job_twice_changes_nothing(job: Quick) -> None:
    job.put("mine/text", "data\n")
    assert run_job(job)[0] == 0
    before = breaking.state(job)
    status, said = run_job(job)
    assert status == 0 and "nothing to do" in said
    assert breaking.state(job) == before


def test_two_jobs_at_once_do_not_mix_in_one_folder(job: Quick) -> None:
    """The second is told, before it touches what the first one has there."""
    job.put("mine/text", "data\n")
    wait = "echo one >output/model.bin; echo {} >output/config.json; touch begun; while [ ! -e go ]; do sleep 0.1; done"
    first = start(job, "scripts/run_job.sh", TORCHLIFT_COMMAND=wait)
    eventually((job.work / "begun").exists)
    status, said = run_job(job, TORCHLIFT_COMMAND="echo two >output/model.bin; echo x >output/other")
    assert status == 1 and f"another job runs in {job.work}" in said
    (job.work / "go").touch()
    assert finish(first)[0] == 0
    assert job.published() == {"model.bin": "one\n", "config.json": "{}\n"}


def test_two_fetches_to_one_folder_at_once_leave_it_whole(quick: Quick) -> None:
    target = quick.folder / "inputs/data"
    (target.parent / ".fetch-of-one-that-was-killed").mkdir(parents=True)
    for name in ("one", "two"):
        for file in ("a", "b"):
            quick.put(f"mine/{name}/{file}", name)
    uris = [f"plain+s3://{quick.bucket}/mine/{name}/" for name in ("one", "two")]
    both = [start(quick, "scripts/fetch.sh", uri, str(target)) for uri in uris]
    ends = [finish(process) for process in both]
    assert [status for status, _ in ends] == [0, 0], ends
    assert {path.name for path in target.iterdir()} == {"a", "b"}
    assert len({path.read_text() for path in target.iterdir()}) == 1
    assert [path.name for path in target.parent.iterdir()] == ["data"], "nothing is left of earlier ones"
