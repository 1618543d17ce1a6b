"""A job's host whose log breaks, whose programs hang, and which is reset while it boots. AWS is a folder here."""

from __future__ import annotations

import pytest

from tests.scripts import breaking
from tests.scripts.conftest import Quick
from tests.scripts.job_host import Host, boot, make_quick_host, times_ended, write_bundle
from tests.support.receiver import Receiver


@pytest.fixture
def host(quick: Quick, receiver: Receiver) -> Host:
    return make_quick_host(quick, receiver)


def told(receiver: Receiver) -> list[str]:
    return [body["Status"] for body in receiver.bodies]


@pytest.mark.parametrize("breakage", ["exit 1", "exit 127", "exec /bin/sleep 0"])
def test_a_log_that_breaks_does_not_end_the_job(host: Host, receiver: Receiver, breakage: str) -> None:
    """Whoever wrote to it next would die without a word, and the instance go on costing."""
    host.bench.program("tee", breakage)
    output = host.run()
    assert told(receiver) == ["SUCCESS"] and host.bench.is_published(), output
    assert times_ended(host) == 1


def test_a_log_that_is_killed_in_the_middle_does_not_end_the_job(host: Host, receiver: Receiver) -> None:
    pids = host.bench.folder / "pids"
    host.bench.program("tee", f'echo $$ >>"{pids}"; exec "$REAL" "$@"')
    command = f"kill -KILL $(cat {pids}); sleep 0.2; seq 20000; echo trained >output/weights"
    output = host.run(TORCHLIFT_COMMAND=command)
    assert told(receiver) == ["SUCCESS"] and host.bench.is_published(), output
    assert times_ended(host) == 1 and "SUCCESS: s3://" in output


def test_a_log_on_a_full_disk_does_not_end_the_job(host: Host, receiver: Receiver) -> None:
    host.bench.program("tee", 'exec "$REAL" "${@:1:$#-1}" /dev/full')
    output = host.run()
    assert told(receiver) == ["SUCCESS"] and host.bench.is_published(), output
    assert times_ended(host) == 1


@pytest.mark.parametrize(
    ("program", "call", "reason"),
    [
        ("docker", "login*", "cannot be pulled"),
        ("docker", "pull*", "cannot be pulled"),
        ("aws", "ecr*", "cannot be pulled"),
        ("aws", "*--delimiter*", "the checkpoints cannot be read"),
        ("aws", "*weights/test*", "the deadline of 0 minutes has passed"),
    ],
)
def test_a_step_that_hangs_ends_at_the_jobs_deadline(
    host: Host, receiver: Receiver, program: str, call: str, reason: str
) -> None:
    real = (host.bench.bin / program).read_text()
    host.bench.program(program, f'case "$*" in {call}) exec /bin/sleep 100 ;; esac\n{real}')
    output = host.run(TORCHLIFT_DEADLINE_SECONDS="4")
    assert told(receiver) == ["FAILURE"] and not host.bench.is_published(), output
    assert reason in receiver.bodies[0]["Reason"]
    assert times_ended(host) == 1


def test_a_save_that_hangs_does_not_keep_a_job_that_has_ended(host: Host, receiver: Receiver) -> None:
    real = (host.bench.bin / "aws").read_text()
    host.bench.program(
        "aws",
        f'case "$*" in *checkpoints*step-1*) touch "{host.bench.work}/saving"; exec /bin/sleep 100 ;; esac\n{real}',
    )
    train = "mkdir checkpoints/step-1; touch checkpoints/step-1/state; while [ ! -e saving ]; do sleep 0.1; done"
    output = host.run(
        TORCHLIFT_COMMAND=f"{train}; echo trained >output/weights",
        TORCHLIFT_SAVE_EVERY_SECONDS="1", TORCHLIFT_SAVE_SECONDS="2",
    )  # fmt: skip
    assert told(receiver) == ["SUCCESS"] and host.bench.is_published(), output
    assert times_ended(host) == 1


def test_a_job_that_cannot_say_why_is_told_with_the_end_of_the_log(host: Host, receiver: Receiver) -> None:
    host.bench.program("flock", 'case "$1" in --nonblock) echo no locks >&2; exit 71 ;; esac; exec "$REAL" "$@"')
    host.run()
    assert told(receiver) == ["FAILURE"]
    assert "no locks" in receiver.bodies[0]["Reason"]


def test_a_host_that_is_reset_while_it_boots_boots_again(host: Host, receiver: Receiver) -> None:
    """cloud-init runs user data once; so its mark of that must be gone at the first step that can be cut off."""
    mark = host.bench.folder / "root/var/lib/cloud/instance/sem/config_scripts_user"
    mark.parent.mkdir(parents=True)
    bundle = write_bundle(host.bench)
    breaking.count(host.bench, breaking.OF_BOOT, caller="user_data.sh", breakage=breaking.KILLED)
    for step in breaking.sweep(host.bench):
        mark.touch()
        done = boot(host, TORCHLIFT_SOURCE=bundle)
        assert step or len(breaking.steps(host.bench)) >= 10
        assert (done.returncode == 0) == (step == 0), done.stderr
        assert not mark.exists() or step == 1, "the very first command"
        breaking.break_at(host.bench, 0)
        assert boot(host, TORCHLIFT_SOURCE=bundle).returncode == 0, f"after step {step}"
    assert told(receiver) == []


def test_user_data_twice_changes_nothing(host: Host, receiver: Receiver) -> None:
    root = host.bench.folder / "root"
    enabled = root / "etc/systemd/system/multi-user.target.wants/torchlift-job.service"
    log = host.bench.folder / "systemctl.log"
    host.bench.program(
        "systemctl",
        f"""echo "$*" >>"{log}"
case "$1" in enable) mkdir -p {enabled.parent}; ln -s ../torchlift-job.service {enabled} ;; esac""",
    )
    bundle = write_bundle(host.bench)
    assert boot(host, TORCHLIFT_SOURCE=bundle).returncode == 0
    before, units = breaking.written(root), log.read_text()
    assert boot(host, TORCHLIFT_SOURCE=bundle).returncode == 0
    assert breaking.written(root) == before and log.read_text() == units and told(receiver) == []
