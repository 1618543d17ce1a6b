"""Checkpoints leave the machine whole, newest first, and come back on another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from model_code.sentiment import checkpoints
from tests.scripts.conftest import Workbench

PREFIX = "checkpoints/test-job/0123456789abcdef/"


def run(bench: Workbench, verb: str) -> str:
    done = bench.run(
        "scripts/checkpoints.sh",
        verb,
        TORCHLIFT_CHECKPOINTS=f"s3://{bench.bucket}/{PREFIX}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stored(bench: Workbench) -> set[str]:
    return {key.removeprefix(PREFIX).split("/")[0] for key in bench.keys(PREFIX)}


def test_what_the_training_saves_is_resumed_on_another_machine(bench: Workbench) -> None:
    """The training's own checkpoints: the two sides must agree on names and places."""
    folder = bench.work / "checkpoints"
    for step in (9, 10, 11):
        checkpoints.save(folder, step, {"identity": {"seed": 1}, "step": step})
    (folder / ".step-00000012").mkdir()
    (folder / ".step-00000012" / "state.pt").write_bytes(b"half")
    run(bench, "save")
    assert stored(bench) == {"step-00000011"}
    shutil.rmtree(bench.work)
    assert "resumes from step-00000011" in run(bench, "restore")
    assert checkpoints.load_latest(folder, identity={"seed": 1}) == {"identity": {"seed": 1}, "step": 11}
    bench.program("aws", 'case "$*" in "s3 cp"*) exit 1 ;; esac\nexec "$REAL" "$@"')
    run(bench, "save")  # what came from there is not sent back


def write(bench: Workbench, name: str, text: str = "state") -> Path:
    folder = bench.work / "checkpoints" / name
    folder.mkdir(parents=True)
    (folder / "state").write_text(text)
    return folder


def test_the_two_newest_stay_and_are_in_order_of_their_number(bench: Workbench) -> None:
    for name in ("step-8", "step-9"):
        bench.put(f"{PREFIX}{name}/state", "earlier")
        bench.put(f"{PREFIX}{name}/manifest.json", "{}")
    write(bench, "step-10")
    run(bench, "save")
    assert stored(bench) == {"step-9", "step-10"}
    run(bench, "clear")
    assert bench.keys() == []


def test_one_that_was_cut_off_while_uploading_is_passed_over(bench: Workbench) -> None:
    write(bench, "step-1", "whole")
    run(bench, "save")
    bench.put(f"{PREFIX}step-2/state", "half")
    write(bench, "step-3", "lost with its machine")
    assert "resumes from step-1" in run(bench, "restore")
    names = [path.name for path in (bench.work / "checkpoints").iterdir()]
    assert names == ["step-1"], "what a crash left on this machine may be half written"
    assert (bench.work / "checkpoints/step-1/state").read_text() == "whole"


def test_one_that_the_job_removes_while_it_is_saved_arrives_whole(bench: Workbench) -> None:
    folder = write(bench, "step-1")
    bench.program("aws", f'rm -rf "{folder}"\nexec "$REAL" "$@"')
    run(bench, "save")
    assert bench.read(f"{PREFIX}step-1/state") == b"state"
    assert f"{PREFIX}step-1/manifest.json" in bench.keys(PREFIX)


@pytest.mark.parametrize("verb", ["save", "restore"])
def test_there_may_be_none(bench: Workbench, verb: str) -> None:
    assert ("no checkpoint to resume from" in run(bench, verb)) == (verb == "restore")
    assert bench.keys() == []


def test_what_was_saved_or_restored_is_not_sent_again(bench: Workbench) -> None:
    write(bench, "step-1")
    run(bench, "save")
    run(bench, "clear")
    run(bench, "save")
    assert bench.keys() == []
    bench.put(f"{PREFIX}step-2/manifest.json", "{}")
    write(bench, "step-3")
    run(bench, "save")
    assert stored(bench) == {"step-2", "step-3"}
    run(bench, "restore")
    run(bench, "clear")
    run(bench, "save")
    assert bench.keys() == []


def test_what_a_killed_save_left_is_in_no_checkpoint(bench: Workbench) -> None:
    held = bench.work / "saved_checkpoints" / ".held"
    held.mkdir(parents=True)
    (held / "of another").write_text("state")
    write(bench, "step-1")
    run(bench, "save")
    assert set(bench.keys()) == {f"{PREFIX}step-1/state", f"{PREFIX}step-1/manifest.json"}
    assert [path.name for path in held.parent.iterdir()] == ["step-1"], "its files are held no longer than needed"
