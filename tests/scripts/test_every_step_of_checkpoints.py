"""Checkpoints saved and restored with each step broken: what was whole stays, and is what a job resumes from."""

from __future__ import annotations

import shutil

import pytest

from tests.scripts import breaking
from tests.scripts.breaking import finish, start
from tests.scripts.conftest import Quick

PREFIX = "checkpoints/test-job/0123456789abcdef/"


def checkpoints(bench: Quick, verb: str, **variables: str) -> tuple[int, str]:
    uri = f"s3://{bench.bucket}/{PREFIX}"
    return finish(start(bench, "scripts/checkpoints.sh", verb, TORCHLIFT_CHECKPOINTS=uri, **variables))


def write(bench: Quick, name: str) -> None:
    folder = bench.work / "checkpoints" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state").write_text(name)
    (folder / "weights").write_text(name)


def whole(bench: Quick) -> list[str]:
    """The checkpoints that a job may resume from, oldest first."""
    found = [key.split("/")[3] for key in bench.keys(PREFIX) if key.endswith("manifest.json")]
    for name in found:
        assert [bench.read(f"{PREFIX}{name}/{file}").decode() for file in ("state", "weights")] == [name, name]
    return sorted(found, key=lambda name: int(name.partition("-")[2]))


def resumed(bench: Quick) -> dict[str, set[str]]:
    """{checkpoint: what its files say} on this machine."""
    folders = [path for path in (bench.work / "checkpoints").iterdir() if not path.name.startswith(".")]
    return {folder.name: {file.read_text() for file in folder.iterdir()} for folder in folders}


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_saving_broken_at_each_step_leaves_a_whole_checkpoint(quick: Quick, breakage: str) -> None:
    """The one before, or the new one; and the next try saves the new one."""
    for name in ("step-7", "step-8", "step-9"):
        write(quick, name)
        assert checkpoints(quick, "save")[0] == 0
    write(quick, "step-10")
    before = {name: shutil.copytree(quick.folder / name, quick.folder / f"{name}-before") for name in ("store", "work")}
    programs = ("aws", "bash", "python3", "mkdir", "find", "sort", "rm", "cp", "touch", "flock")
    breaking.count(quick, programs, caller="checkpoints.sh", breakage=breakage)
    for step in breaking.sweep(quick):
        for name, folder in before.items():
            shutil.rmtree(quick.folder / name)
            shutil.copytree(folder, quick.folder / name)
        status, said = checkpoints(quick, "save")
        calls = breaking.steps(quick)
        if step == 0:
            assert status == 0, said
            assert len(calls) >= 14, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {said}"
            breaking.break_at(quick, 0)
            assert whole(quick)[-1] in ("step-9", "step-10"), broken
            status, again = checkpoints(quick, "save")
            assert status == 0, f"{broken}, then {again}"
        assert whole(quick)[-1] == "step-10"


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_restoring_broken_at_each_step_never_begins_again(quick: Quick, breakage: str) -> None:
    """It has the newest whole one, or fails: what is there is not trained a second time."""
    quick.program("sleep", "exit 0")
    for name in ("step-9", "step-10"):
        write(quick, name)
        assert checkpoints(quick, "save")[0] == 0
    quick.put(f"{PREFIX}step-11/state", "cut off")
    programs = ("aws", "bash", "python3", "find", "sort", "flock", "mv")
    breaking.count(quick, programs, caller="/scripts/", breakage=breakage)
    # Whoever is killed leaves it all to the next one.
    for step in breaking.sweep(quick, stride=1 if breakage == breaking.FAILS else 4):
        status, said = checkpoints(quick, "restore")
        calls = breaking.steps(quick)
        assert step or len(calls) >= 15, calls
        broken = f"step {step}, {calls[step - 1]}: {said}"
        assert status != 0 or resumed(quick) == {"step-10": {"step-10"}}, broken
        if status:
            breaking.break_at(quick, 0)
            status, again = checkpoints(quick, "restore")
            assert (status, resumed(quick)) == (0, {"step-10": {"step-10"}}), f"{broken}, then {again}"


def test_what_was_cut_off_never_takes_the_place_of_what_is_whole(quick: Quick) -> None:
    """A job that resumes from an older one saves older numbers than those that were cut off."""
    for name in ("step-100", "step-110"):
        quick.put(f"{PREFIX}{name}/state", "cut off")
    for name in ("step-60", "step-70", "step-80"):
        write(quick, name)
        assert checkpoints(quick, "save")[0] == 0
    quick.program("sleep", f'echo >>"{quick.folder}/pauses"')
    assert checkpoints(quick, "restore")[0] == 0
    assert resumed(quick) == {"step-80": {"step-80"}}
    assert not (quick.folder / "pauses").exists(), "neither is asked for a second time"
    assert {key.split("/")[3] for key in quick.keys(PREFIX)} == {"step-70", "step-80"}


def test_a_checkpoint_that_cannot_be_fetched_is_no_reason_to_begin_again(quick: Quick) -> None:
    write(quick, "step-1")
    assert checkpoints(quick, "save")[0] == 0
    quick.program("sleep", f'echo >>"{quick.folder}/pauses"')
    real = (quick.bin / "aws").read_text()
    quick.program("aws", f'case "$*" in "s3 cp"*) exit 1 ;; esac\n{real}')
    status, said = checkpoints(quick, "restore")
    assert status != 0 and "step-1 cannot be fetched" in said
    assert (quick.folder / "pauses").read_text() == "\n" * 3, "it was tried again"


def test_checkpoints_twice_change_nothing_and_two_at_once_are_whole(quick: Quick) -> None:
    write(quick, "step-1")
    both = [start(quick, "scripts/checkpoints.sh", "save",
                  TORCHLIFT_CHECKPOINTS=f"s3://{quick.bucket}/{PREFIX}") for _ in range(2)]  # fmt: skip
    ends = [finish(process) for process in both]
    assert [status for status, _ in ends] == [0, 0], ends
    assert sum("published" in said for _, said in ends) == 1
    before = breaking.state(quick)
    assert checkpoints(quick, "save")[0] == 0
    assert breaking.state(quick) == before
    both = [start(quick, "scripts/checkpoints.sh", "restore",
                  TORCHLIFT_CHECKPOINTS=f"s3://{quick.bucket}/{PREFIX}") for _ in range(2)]  # fmt: skip
    assert [finish(process)[0] for process in both] == [0, 0]
    assert resumed(quick) == {"step-1": {"step-1"}}
