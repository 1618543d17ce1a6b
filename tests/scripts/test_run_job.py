"""One job from inputs to result, and every way in which it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.conftest import REPO_ROOT, Workbench

PREFIX = "weights/test/0123456789abcdef/"


def reason(bench: Workbench) -> str:
    text = (bench.work / "reason.txt").read_bytes()
    assert len(text) <= 1000
    return text.decode()


def test_a_job_fetches_runs_and_publishes(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/text.txt").write_text("hello")
    bench.run("scripts/publish.sh", str(tmp_path / "in"), f"s3://{bench.bucket}/inputs/feed/")
    bench.work.mkdir()
    (bench.work / "reason.txt").write_text("of an earlier try")
    done = bench.run(
        "scripts/run_job.sh",
        PYTHONPATH="/of/the/image",
        TORCHLIFT_INPUTS=f"data=s3://{bench.bucket}/inputs/feed/",
        TORCHLIFT_COMMAND='tr a-z A-Z <inputs/data/text.txt >output/loud.txt; echo "$PYTHONPATH" >output/path.txt; pwd',
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert bench.read(f"{PREFIX}loud.txt") == b"HELLO"
    assert bench.read(f"{PREFIX}path.txt").decode() == f"{REPO_ROOT}:/of/the/image\n"
    steps = [line.rsplit(": ")[-1] for line in done.stdout.splitlines() if "test-job 0123456789abcdef: " in line]
    assert steps == ["probe", "fetch", "clean", "run", "publish"]
    assert f"{PREFIX}manifest.json" in bench.keys(PREFIX)
    assert str(bench.work) in done.stdout, "the command's output is shown, and it runs in the work folder"
    assert not (bench.work / "reason.txt").exists()


def test_a_result_that_is_there_is_not_made_again(bench: Workbench) -> None:
    bench.put(f"{PREFIX}manifest.json", '{"schema": 1}')
    done = bench.run("scripts/run_job.sh", TORCHLIFT_COMMAND="touch ran")
    assert done.returncode == 0
    assert "there already" in done.stdout
    assert not (bench.work / "ran").exists()


def test_an_incomplete_result_is_made_again(bench: Workbench) -> None:
    bench.put(f"{PREFIX}weights.bin", "half")
    bench.put(f"{PREFIX}manifest.json", "")
    done = bench.run("scripts/run_job.sh", TORCHLIFT_COMMAND="echo whole >output/weights.bin")
    assert done.returncode == 0, done.stdout
    assert bench.read(f"{PREFIX}weights.bin") == b"whole\n"


def test_a_failing_command_keeps_its_exit_code_and_says_why(bench: Workbench) -> None:
    noise = "seq 1000; printf 'progress 1%%\\rprogress 99%%\\n\\n'; printf '\\033[31mCUDA out of memory\\033[0m\\n' >&2"
    done = bench.run("scripts/run_job.sh", TORCHLIFT_COMMAND=f"{noise}; echo x >output/half; exit 42")
    assert done.returncode == 42
    assert reason(bench).startswith("run: exit 42: ")
    assert reason(bench).endswith("CUDA out of memory")
    assert bench.keys() == []


def test_a_long_reason_is_cut_between_characters(bench: Workbench) -> None:
    done = bench.run("scripts/run_job.sh", TORCHLIFT_COMMAND="printf 'ü%.0s' {1..4000}; exit 1")
    assert done.returncode == 1
    assert reason(bench).startswith("run: exit 1: ü")


def test_what_a_program_of_ours_says_is_the_reason_whatever_its_launcher_says_after_it(bench: Workbench) -> None:
    (bench.work / "model_code").mkdir(parents=True)
    command = "echo 'train: the disk is full'; seq 100; exit 1; python -m model_code.sentiment.train"
    assert bench.run("scripts/run_job.sh", TORCHLIFT_COMMAND=command).returncode == 1
    assert reason(bench) == "run: exit 1: train: the disk is full"


def test_metrics_are_no_reason_and_a_kill_is_explained(bench: Workbench) -> None:
    command = """echo loading; for i in {1..50}; do echo '{"_aws": {}}'; done; exit 137"""
    assert bench.run("scripts/run_job.sh", TORCHLIFT_COMMAND=command).returncode == 137
    assert reason(bench) == "run: exit 137: killed, most likely because the machine's memory ran out: loading"


def test_a_missing_input_fails_before_the_command(bench: Workbench) -> None:
    bench.put("mine/a", "a")
    done = bench.run(
        "scripts/run_job.sh",
        # The first of two: the second would succeed.
        TORCHLIFT_INPUTS=f"data=s3://{bench.bucket}/inputs/none/ two=plain+s3://{bench.bucket}/mine/",
        TORCHLIFT_COMMAND="touch ran",
    )
    assert done.returncode != 0
    assert reason(bench).startswith("fetch: exit 3: ")
    assert "has no manifest.json" in reason(bench)
    assert not (bench.work / "ran").exists()


@pytest.mark.parametrize("name", ["../up", "$(touch${IFS}ran)", ""])
def test_an_unsafe_input_name_is_refused(bench: Workbench, name: str) -> None:
    done = bench.run("scripts/run_job.sh", TORCHLIFT_INPUTS=f"{name}=s3://x/y/", TORCHLIFT_COMMAND="touch ran")
    assert done.returncode != 0
    assert "is no name for an input" in reason(bench)
    assert not (bench.work / "ran").exists()


@pytest.mark.parametrize("entry", ["data", "[a-z]*"])
def test_an_input_without_a_name_is_refused_as_it_was_written(bench: Workbench, entry: str) -> None:
    """Also one that is a pattern to the shell, and fits the folders that are there."""
    done = bench.run("scripts/run_job.sh", TORCHLIFT_INPUTS=entry, TORCHLIFT_COMMAND="touch ran")
    assert done.returncode != 0
    assert f"'{entry}' is not name=uri" in reason(bench)


def test_a_job_knows_where_an_image_has_its_code_and_its_work(bench: Workbench) -> None:
    """Where nobody says so: /opt/torchlift/work, which this test must not make."""
    for name in ("TORCHLIFT_HOME", "TORCHLIFT_WORK"):
        del bench.environment[name]
    bench.program("mkdir", 'echo "mkdir $* with $PYTHONPATH"; exit 9')
    done = bench.run("scripts/run_job.sh", PYTHONPATH="/more", TORCHLIFT_COMMAND="touch ran")
    assert done.returncode == 9
    made = " ".join(f"/opt/torchlift/work/{name}" for name in ("inputs", "output", "checkpoints"))
    assert done.stdout == f"mkdir -p {made} with /opt/torchlift:/more\n"


def test_a_command_that_writes_nothing_fails_at_publishing(bench: Workbench) -> None:
    done = bench.run("scripts/run_job.sh", TORCHLIFT_COMMAND="true")
    assert done.returncode != 0
    assert reason(bench).startswith("publish: exit 1: ")
    assert "nothing to publish" in reason(bench)
    assert bench.keys() == []


def test_a_launcher_goes_before_the_command(bench: Workbench) -> None:
    done = bench.run(
        "scripts/run_job.sh", "env", "LAUNCHED=with spaces", TORCHLIFT_COMMAND='printf "%s" "$LAUNCHED" >output/a'
    )
    assert done.returncode == 0, done.stdout
    assert bench.read(f"{PREFIX}a") == b"with spaces"


def test_a_store_that_does_not_answer_is_a_failure_not_an_absence(bench: Workbench) -> None:
    done = bench.run(
        "scripts/run_job.sh", TORCHLIFT_RESULT="s3://no-such-bucket-here/w/h/", TORCHLIFT_COMMAND="touch ran"
    )
    assert done.returncode != 0
    assert reason(bench).startswith("probe: exit 1: ")
    assert not (bench.work / "ran").exists()
