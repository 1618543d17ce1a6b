"""A development box with each step of its command broken; its user data twice; two trainings at once."""

from __future__ import annotations

import os
import subprocess
import zipfile

import pytest

from tests.scripts import breaking
from tests.scripts.breaking import finish
from tests.scripts.conftest import REPO_ROOT, Quick
from tests.scripts.test_development_box import COMMAND, DOCKER, IMAGE
from tests.support.aws import REGION
from torchlift.interactive_instance import box_environment, box_user_data

PROGRAMS = ("mkdir", "aws", "python3", "mv", "docker", "bash", "date", "ln", "chown", "rm", "flock")
WEIGHTS = "labelled sentences"


def user_data(box: Quick) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", box_user_data(region=REGION, parameter_name="/torchlift/test/box")],
        env={**box.environment, "TORCHLIFT_ROOT": str(box.folder / "root")},
        capture_output=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip


@pytest.fixture
def box(quick: Quick) -> Quick:
    """A booted box of a deployment, whose parameter and Docker are recorders."""
    with zipfile.ZipFile(quick.store / quick.bucket / "source.zip", "w") as bundle:
        for folder in ("scripts", "hosts/interactive"):
            for file in sorted((REPO_ROOT / folder).glob("*.*")):
                bundle.write(file, f"{folder}/{file.name}")
        bundle.writestr("model_code/version.py", "one")
    quick.put("inputs/data/text", WEIGHTS)
    variables = {
        "TORCHLIFT_HASH": "one",
        "TORCHLIFT_SOURCE": f"s3://{quick.bucket}/source.zip",
        "TORCHLIFT_IMAGE": IMAGE,
        "TORCHLIFT_INPUTS": f"data=plain+s3://{quick.bucket}/inputs/data/",
        "TORCHLIFT_COMMAND": COMMAND,
        "TORCHLIFT_BOXES": f"s3://{quick.bucket}/boxes/",
    }
    (quick.folder / "parameter").write_text(box_environment(variables))
    store = (quick.bin / "aws").read_text()
    quick.program("aws", f'[ "$1" != ssm ] || exec /bin/cat "{quick.folder}/parameter"\n{store}')
    quick.program("docker", f'export TEST_LOG="{quick.folder}/docker.log"{DOCKER}')
    for name in ("usr/local/bin", "etc"):
        (quick.folder / "root" / name).mkdir(parents=True)
    assert user_data(quick).returncode == 0
    return quick


def train(box: Quick) -> subprocess.Popen[str]:
    kept = {name: text for name, text in box.environment.items() if not name.startswith("TORCHLIFT_")}
    return subprocess.Popen(
        [str(box.folder / "root/usr/local/bin/torchlift-train")],
        env={
            **kept,
            "TORCHLIFT_HOME": str(box.folder / "home"),
            "TORCHLIFT_INSTANCE_ID": "i-0123456789abcdef0",
            "TORCHLIFT_RUN_AS": f"{os.getuid()}:{os.getgid()}",
        },
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def results(box: Quick) -> list[str]:
    """What each training published."""
    prefixes = [key.removesuffix("manifest.json") for key in box.keys("boxes/") if key.endswith("/manifest.json")]
    return [box.read(f"{prefix}weights").decode() for prefix in prefixes]


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_a_training_broken_at_each_step_and_typed_again(box: Quick, breakage: str) -> None:
    # Runs are named by the second.
    number_file = box.folder / "n"
    box.program("date", f'echo >>"{number_file}"; echo "run-$(wc -l <"{number_file}")"')
    breaking.count(box, PROGRAMS, caller="@(torchlift-train|/train.sh)", breakage=breakage)
    for step in breaking.sweep(box):
        subprocess.run(["rm", "-rf", str(box.folder / "home"), str(box.store / box.bucket / "boxes")], check=True)
        status, said = finish(train(box))
        calls = breaking.steps(box)
        assert step or len(calls) >= 15, calls
        broken = f"step {step}, {calls[step - 1]}: {said}"
        assert results(box) == ([WEIGHTS] if status == 0 else []), broken
        assert (status == 0) == (step == 0), broken
        if status:
            breaking.break_at(box, 0)
            status, again = finish(train(box))
            assert (status, results(box)) == (0, [WEIGHTS]), f"{broken}, then {again}"
            assert (box.folder / "home/one/model_code/version.py").read_text() == "one"


def test_two_trainings_at_once_do_not_disturb_each_other(box: Quick) -> None:
    ends = [finish(process) for process in [train(box), train(box)]]
    whole = [said for status, said in ends if status == 0]
    # In one second there is one run, and the other is told so.
    assert len(whole) == 2 or any("another training began" in said for _, said in ends), ends
    assert results(box) == [WEIGHTS] * len(whole)
    assert sum("fetched" in said for _, said in ends) == 1


def test_user_data_twice_changes_nothing_and_a_reset_box_begins_again(box: Quick) -> None:
    root = box.folder / "root"
    before = breaking.written(root)
    assert user_data(box).returncode == 0 and breaking.written(root) == before
    breaking.count(box, ("rm", "cat", "chmod"), caller="TORCHLIFT_TRAIN", breakage=breaking.KILLED)
    for step in range(1, 4):
        (root / "usr/local/bin/torchlift-train").unlink()
        breaking.break_at(box, step)
        assert user_data(box).returncode != 0
        assert not (root / "usr/local/bin/torchlift-train").exists()
        breaking.break_at(box, 0)
        assert user_data(box).returncode == 0
        after = breaking.written(root)
        assert {path: text for path, (text, _) in after.items()} == {path: text for path, (text, _) in before.items()}
