"""A development box: its boot script and the command that it leaves, with Docker replaced by a recorder."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.scripts.conftest import REPO_ROOT, Workbench
from tests.support.aws import REGION
from torchlift.interactive_instance import box_environment, box_user_data

IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/sentiment-training:0123456789abcdef"
PARAMETER = "/torchlift/test/sentiment/box"
# Docker's stand-in runs the command here, in the folder and as nobody else than the test.
DOCKER = f"""
printf '%s\\n' "$*" >>"$TEST_LOG"
case "$1" in
  login) cat >/dev/null ;;
  run)
    while [ "$1" != {IMAGE} ]; do [ "$1" != --workdir ] || cd "$2"; shift; done; shift
    exec "$@" ;;
esac
"""
COMMAND = """cat inputs/data/text >output/weights; printf '%s\\n' "it's" --epochs 3"""


def deploy(bench: Workbench, version: str, command: str = COMMAND, data: str = "inputs/data/") -> None:
    """Put the source bundle and the parameter where a deployment would."""
    source = bench.folder / "source.zip"
    with zipfile.ZipFile(source, "w") as bundle:
        for folder in ("scripts", "hosts/interactive"):
            for file in sorted((REPO_ROOT / folder).iterdir()):
                if file.is_file():
                    bundle.write(file, f"{folder}/{file.name}")
        bundle.writestr("model_code/version.py", version)
    bench.put(f"source-{version}.zip", source.read_bytes())
    bench.put("inputs/data/text", "labelled sentences")
    variables = {
        "TORCHLIFT_HASH": version,
        "TORCHLIFT_SOURCE": f"s3://{bench.bucket}/source-{version}.zip",
        "TORCHLIFT_IMAGE": IMAGE,
        "TORCHLIFT_INPUTS": f"data=plain+s3://{bench.bucket}/{data}",
        "TORCHLIFT_COMMAND": command,
        "TORCHLIFT_BOXES": f"s3://{bench.bucket}/boxes/",
        "AWS_REGION": REGION,
    }
    bench.client("ssm").put_parameter(Name=PARAMETER, Value=box_environment(variables), Type="String", Overwrite=True)


@pytest.fixture
def box(bench: Workbench) -> Workbench:
    """A booted box of a deployment."""
    deploy(bench, "one")
    bench.program("docker", f'export TEST_LOG="{bench.folder}/docker.log"{DOCKER}')
    (bench.folder / "usr/local/bin").mkdir(parents=True)
    (bench.folder / "etc").mkdir()
    subprocess.run(
        ["bash", "-c", box_user_data(region=REGION, parameter_name=PARAMETER)],
        env={**bench.environment, "TORCHLIFT_ROOT": str(bench.folder)},
        check=True,
        timeout=60,
    )
    return bench


def train(box: Workbench, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the one documented command."""
    environment = {name: text for name, text in box.environment.items() if not name.startswith("TORCHLIFT_")}
    environment |= {
        "TORCHLIFT_HOME": str(box.folder / "home"),
        "TORCHLIFT_INSTANCE_ID": "i-0123456789abcdef0",
        "TORCHLIFT_RUN_AS": f"{os.getuid()}:{os.getgid()}",
    }
    return subprocess.run(
        [str(box.folder / "usr/local/bin/torchlift-train"), *options],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def runs(box: Workbench) -> list[Path]:
    return sorted((box.folder / "home/work/runs").iterdir())


def test_one_command_trains_what_is_deployed_and_publishes_it(box: Workbench) -> None:
    done = train(box, "--epochs", "1", "a b")
    assert done.returncode == 0, done.stderr
    assert "it's\n--epochs\n3\n--epochs\n1\na b\n" in done.stdout, "what is typed comes after what is deployed"
    (run,) = runs(box)
    assert f"torchlift: training in {run}\n" in done.stdout, "where it lies is told before it takes hours"
    assert (run / "output/weights").read_text() == "labelled sentences"
    prefix = f"boxes/i-0123456789abcdef0/{run.name}/"
    assert box.keys("boxes/") == [f"{prefix}manifest.json", f"{prefix}weights"]
    *before, call = (box.folder / "docker.log").read_text().splitlines()
    assert before == [f"login --username AWS --password-stdin {IMAGE.partition('/')[0]}", f"pull --quiet {IMAGE}"]
    code = box.folder / "home/one/model_code"
    work, inputs = box.folder / "home/work", "--env TORCHLIFT_BASE_MODEL --env TORCHLIFT_DATA --env TORCHLIFT_IMAGE"
    # Edited code is the code that runs.
    right = (
        f"run --rm --user {os.getuid()}:{os.getgid()} --entrypoint /usr/bin/env --workdir {run} "
        f"--volume {work}:{work} --volume {code}:/opt/torchlift/model_code:ro --ipc host --ulimit memlock=-1 "
        "--ulimit stack=67108864 --security-opt no-new-privileges --env HOME=/tmp --env USER=torchlift "
        f"{inputs} {IMAGE} "
    )
    assert call.startswith(right), f"{call}\n{right}"


def test_edited_code_and_fetched_inputs_stay_until_something_else_is_deployed(box: Workbench) -> None:
    assert train(box).returncode == 0
    code = box.folder / "home/one/model_code/version.py"
    code.write_text("edited")
    box.put("inputs/data/text", "others, which nobody fetches: data is known by its address")
    again = train(box)
    assert again.returncode == 0, again.stderr
    assert "torchlift: fetched" not in again.stdout, again.stdout
    assert code.read_text() == "edited"
    deploy(box, "two", "echo another >output/weights")
    assert train(box).returncode == 0
    assert (box.folder / "home/two/model_code/version.py").read_text() == "two"
    assert (runs(box)[-1] / "output/weights").read_text() == "another\n"


def test_a_failing_training_publishes_nothing_and_says_where_it_lies(box: Workbench) -> None:
    deploy(box, "one", "echo half >output/weights; exit 3;")
    done = train(box)
    assert done.returncode == 3
    assert str(runs(box)[0]) in done.stderr
    assert box.keys("boxes/") == []


def test_a_training_that_cannot_be_published_says_how_to_publish_it(box: Workbench) -> None:
    box.program("aws", 'case "$*" in *boxes/*) exit 1 ;; esac\nexec "$REAL" "$@"')
    done = train(box)
    (run,) = runs(box)
    assert done.returncode == 1
    (said,) = [line for line in done.stderr.splitlines() if "not published; again: " in line]
    box.program("aws", 'exec "$REAL" "$@"')
    again = subprocess.run(said.partition("again: ")[2].split(), env=box.environment, capture_output=True, timeout=60)
    assert again.returncode == 0, again.stderr
    assert f"boxes/i-0123456789abcdef0/{run.name}/manifest.json" in box.keys("boxes/")


def test_an_input_that_was_half_replaced_is_taken_for_neither(box: Workbench) -> None:
    assert train(box).returncode == 0
    box.put("others/text", "other sentences")
    fetch = box.folder / "home/one/scripts/fetch.sh"
    whole = fetch.rename(fetch.with_name("whole.sh"))
    fetch.write_text(f'bash {whole} "$@"; exit 1')
    deploy(box, "one", data="others/")
    assert train(box).returncode != 0
    assert (box.folder / "home/work/inputs/data/text").read_text() == "other sentences", "replaced before it failed"
    whole.rename(fetch)
    deploy(box, "one")
    done = train(box)
    assert done.returncode == 0, done.stderr
    assert (runs(box)[-1] / "output/weights").read_text() == "labelled sentences"


@pytest.mark.parametrize("breakage", ["*ssm*", "*source-one*", "*inputs/data*", "*get-login*"])
def test_whatever_cannot_be_reached_ends_it_before_the_training(box: Workbench, breakage: str) -> None:
    box.program("aws", f'case "$*" in {breakage}) exit 1 ;; esac\nexec "$REAL" "$@"')
    assert train(box).returncode != 0
    log = box.folder / "docker.log"
    assert not log.exists() or "run " not in log.read_text()
    left = [path.name for path in (box.folder / "home").glob("work/inputs/*")]
    assert left in ([], ["data", "data.uri"], ["data.uri", "data"]), "nothing half-fetched is in the way"
