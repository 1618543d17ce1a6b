"""An instance job's host: boot script, unit and run.sh."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest

from tests.scripts.conftest import Workbench
from tests.scripts.job_host import IMAGE, Host, boot, make_host, write_bundle
from tests.support.aws import REGION
from tests.support.receiver import Receiver


@pytest.fixture
def host(bench: Workbench, receiver: Receiver) -> Host:
    return make_host(bench, receiver)


def test_a_job_publishes_signals_and_ends_its_instance(host: Host, receiver: Receiver) -> None:
    output = host.run()
    assert [body["Status"] for body in receiver.bodies] == ["SUCCESS"], output
    assert receiver.bodies[0]["UniqueId"] == "0123456789abcdef"
    assert host.bench.read("weights/test/0123456789abcdef/weights") == b"trained\n"
    assert host.capacity() == (0, 0)
    run = next(call for call in host.docker_calls() if call.startswith("run "))
    work, stream = host.bench.work, f"test-job/0123456789abcdef/{host.instance}/container-"
    passed = "".join(f"--env {name} " for name in sorted(host.variables) if name != "TORCHLIFT_HANDLE")
    right = (
        f"run --rm --name torchlift-job --user {os.getuid()}:{os.getgid()} --entrypoint /usr/bin/env "
        f"--volume {work}:{work} --workdir {work} --ipc host --ulimit memlock=-1 --ulimit stack=67108864 "
        f"--security-opt no-new-privileges --log-driver awslogs --log-opt awslogs-region={REGION} "
        f"--log-opt awslogs-group={host.variables['TORCHLIFT_LOG_GROUP']} --log-opt awslogs-stream={stream}TIME "
        f"--env HOME=/tmp --env USER=torchlift {passed}--gpus all {IMAGE} "
    )
    assert re.sub(r"(?<=/container-)\d{10}\b", "TIME", run).startswith(right), f"{run}\n{right}"
    before = host.docker_calls()[: host.docker_calls().index(run)]
    assert "rm --force torchlift-job" in before, "what another boot left must not hold the name"
    assert "TORCHLIFT_HANDLE" not in run, "the container has no business with the stack"
    assert host.bench.keys("checkpoints/") == [], "a finished job needs no checkpoints"
    logs = host.bench.client("logs")
    [stream] = logs.describe_log_streams(logGroupName=host.variables["TORCHLIFT_LOG_GROUP"])["logStreams"]
    assert stream["logStreamName"] == f"test-job/0123456789abcdef/{host.instance}/host"


def test_a_failing_job_signals_why_and_ends_its_instance_too(host: Host, receiver: Receiver) -> None:
    output = host.run(TORCHLIFT_COMMAND="echo 'loss is nan' >&2; exit 3")
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"], output
    assert "run: exit 3: loss is nan" in receiver.bodies[0]["Reason"]
    assert host.instance in receiver.bodies[0]["Reason"]
    assert host.capacity() == (0, 0)
    (line,) = host.failures()
    assert "loss is nan" in line


@pytest.mark.parametrize("status", [124, 137])
def test_a_job_that_ends_like_a_deadline_is_not_taken_for_one(host: Host, receiver: Receiver, status: int) -> None:
    """137 is also what a container gives that ran out of memory."""
    host.run(TORCHLIFT_COMMAND=f"echo 'out of memory'; exit {status}")
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"]
    assert f"run: exit {status}: " in receiver.bodies[0]["Reason"]
    assert receiver.bodies[0]["Reason"].endswith("out of memory")
    assert host.capacity() == (0, 0)


def test_an_instance_that_does_not_know_itself_signals_and_shuts_down(host: Host, receiver: Receiver) -> None:
    host.bench.program("curl", 'case "$*" in *169.254.169.254*) exit 28 ;; esac\nexec "$REAL" "$@"')
    host.run(TORCHLIFT_INSTANCE_ID="")
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"]
    assert "the instance metadata service does not answer" in receiver.bodies[0]["Reason"]
    assert (host.bench.folder / "systemctl.log").read_text() == "poweroff\n"


@pytest.mark.parametrize(
    ("breakage", "reason"),
    [
        ("*s3api*started-*", "the time of the first start cannot be read"),
        ("*s3?cp*started-*", "the time of the first start cannot be read or written"),
        ("*--prefix?checkpoints/*--delimiter*", "the checkpoints cannot be read"),
        ("*tmp/weights/*", "publish: exit"),
    ],
)
def test_a_store_that_fails_at_any_step_is_signalled(
    host: Host, receiver: Receiver, breakage: str, reason: str
) -> None:
    host.bench.program("aws", f'case "$*" in {breakage}) exit 1 ;; esac\nexec "$REAL" "$@"')
    output = host.run()
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"], output
    assert reason in receiver.bodies[0]["Reason"]
    assert host.capacity() == (0, 0)


def test_a_result_that_is_there_ends_the_instance_without_work(host: Host, receiver: Receiver) -> None:
    host.bench.put("weights/test/0123456789abcdef/manifest.json", "{}")
    host.run(TORCHLIFT_COMMAND="exit 1")
    assert [body["Status"] for body in receiver.bodies] == ["SUCCESS"]
    assert host.capacity() == (0, 0)
    assert not any(call.startswith("run ") for call in host.docker_calls())


def test_an_image_that_cannot_be_pulled_is_a_failure(host: Host, receiver: Receiver) -> None:
    host.bench.program("docker", 'case "$1" in login) cat >/dev/null ;; pull) exit 1 ;; esac')
    host.run()
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"]
    assert "cannot be pulled" in receiver.bodies[0]["Reason"]
    assert host.capacity() == (0, 0)


def test_the_deadline_ends_a_job(host: Host, receiver: Receiver) -> None:
    started = time.time() - 3600 + 8
    mark = subprocess.run(["sha256sum"], input=receiver.url, capture_output=True, text=True, check=True).stdout[:16]
    host.bench.put(f"checkpoints/test-job/0123456789abcdef/started-{mark}", str(int(started)))
    output = host.run(TORCHLIFT_COMMAND="sleep 300")
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"], output
    assert "the deadline of 60 minutes has passed" in receiver.bodies[0]["Reason"]
    assert host.capacity() == (0, 0)


def test_a_reclaimed_host_signals_nothing_and_the_next_resumes(host: Host, receiver: Receiver) -> None:
    train = """
last=$(ls checkpoints | sort -V | tail -n 1)
[ -z "$last" ] || { cat "checkpoints/$last/state" >output/resumed; exit 0; }
mkdir checkpoints/checkpoint-9 checkpoints/checkpoint-10
echo nine >checkpoints/checkpoint-9/state; echo ten >checkpoints/checkpoint-10/state
mkdir checkpoints/.checkpoint-11; echo half >checkpoints/.checkpoint-11/state
touch written; sleep 300
"""
    process = host.start(TORCHLIFT_COMMAND=train)
    limit = time.monotonic() + 90
    while not (host.bench.work / "written").exists():
        assert time.monotonic() < limit and process.poll() is None
        time.sleep(0.2)
    # systemd sends SIGTERM to the unit's main process; docker stop then ends the container.
    os.kill(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=150)
    assert process.returncode == 0, output
    assert receiver.bodies == []
    assert host.capacity() == (1, 1), "the instance does not take itself out"
    names = {key.split("/")[3] for key in host.bench.keys("checkpoints/") if "/checkpoint-" in key}
    assert names == {"checkpoint-10"}, "the latest, but not the half-written one"

    subprocess.run(["rm", "-rf", str(host.bench.work)], check=True)
    output = host.run(TORCHLIFT_COMMAND=train)
    assert [body["Status"] for body in receiver.bodies] == ["SUCCESS"], output
    assert "resumes from checkpoint-10" in output
    assert host.bench.read("weights/test/0123456789abcdef/resumed") == b"ten\n"


def test_the_notice_of_a_spot_interruption_saves_before_the_shutdown(host: Host, receiver: Receiver) -> None:
    host.bench.program(
        "curl",
        f"""case "$*" in
  *latest/api/token*) echo token ;;
  *spot/instance-action*) [ -e "{host.bench.work}/written" ] && printf 200 || printf 404 ;;
  *) exec "$REAL" "$@" ;;
esac""",
    )
    train = "mkdir checkpoints/step-1; echo one >checkpoints/step-1/state; touch written; sleep 300"
    output = host.run(TORCHLIFT_COMMAND=train, TORCHLIFT_WATCH_SECONDS="1")
    assert "this Spot instance will be taken back: saving" in output
    assert receiver.bodies == []
    assert host.capacity() == (1, 1), "the group replaces it when it is gone"
    assert any("/step-1/manifest.json" in key for key in host.bench.keys("checkpoints/"))


def test_a_boot_that_reaches_nothing_turns_itself_off(host: Host, receiver: Receiver) -> None:
    """Neither the signal nor the group can be told: an instance that is off counts as lost, and costs nothing."""
    host.bench.program("aws", "exit 255")

    done = boot(host, TORCHLIFT_SOURCE="s3://nowhere/bundle.zip", TORCHLIFT_HANDLE="http://127.0.0.1:9/")
    assert done.returncode == 1, done.stderr
    assert "cannot fetch s3://nowhere/bundle.zip" in done.stderr
    assert (host.bench.folder / "systemctl.log").read_text().splitlines() == ["poweroff"]


def test_gpus_that_do_not_answer_fail_the_job(host: Host, receiver: Receiver) -> None:
    host.bench.program("nvidia-smi", "exit 9")
    host.run()
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"]
    assert "nvidia-smi fails" in receiver.bodies[0]["Reason"]


def test_the_boot_script_fetches_the_bundle_and_enables_the_unit(host: Host, receiver: Receiver) -> None:
    command = """python -c "print('quoted $HOME')" """
    done = boot(host, TORCHLIFT_SOURCE=write_bundle(host.bench), TORCHLIFT_COMMAND=command)
    assert done.returncode == 0, done.stderr
    root = host.bench.folder / "root"
    assert (root / "etc/systemd/system/torchlift-job.service").read_text().startswith("[Unit]")
    assert (root / "opt/torchlift/scripts/run_job.sh").exists()
    assert (root / "etc/torchlift/job.env").stat().st_mode & 0o777 == 0o600, "the handle's URL is a capability"
    read = subprocess.run(
        ["bash", "-c", f'. "{root}/etc/torchlift/job.env"; printf %s "$TORCHLIFT_COMMAND"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout == command
    calls = (host.bench.folder / "systemctl.log").read_text().splitlines()
    assert calls == ["daemon-reload", "enable --now --no-block torchlift-job.service"]
    assert receiver.bodies == []


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"TORCHLIFT_SOURCE": "s3://no-such-bucket-here/bundle.zip"},
            "cannot fetch s3://no-such-bucket-here/bundle.zip",
        ),
        ({"TORCHLIFT_ROOT_GIB": "99999999"}, "is the AMI's root device another one?"),
    ],
)
def test_a_boot_that_fails_is_signalled_and_ends_the_instance(
    host: Host, receiver: Receiver, variables: dict[str, str], said: str
) -> None:
    done = boot(host, **{"TORCHLIFT_SOURCE": "s3://unused/x.zip", **variables})
    assert done.returncode != 0
    assert receiver.refused == 0
    assert [body["Status"] for body in receiver.bodies] == ["FAILURE"], done.stderr
    assert said in receiver.bodies[0]["Reason"]
    assert host.capacity() == (0, 0)
    (line,) = host.failures()
    assert said in line
