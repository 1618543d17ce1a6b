"""Each step of a job's host broken once, at boot and in run.sh: the stack is told once, and nothing goes on costing."""

from __future__ import annotations

import pytest

from tests.scripts import breaking
from tests.scripts.conftest import Quick
from tests.scripts.job_host import Host, boot, make_quick_host, times_ended, write_bundle
from tests.support.receiver import Receiver

OF_RUN = ("mkdir", "aws", "date", "docker", "bash", "chown", "nvidia-smi", "sha256sum", "timeout", "tail")


def off(host: Host) -> bool:
    """Whether the instance costs nothing more: out of its group, or off."""
    calls = host.bench.folder / "systemctl.log"
    return times_ended(host) == 1 or (calls.exists() and "poweroff" in calls.read_text())


def anew(bench: Quick, receiver: Receiver) -> Host:
    """Another instance of another group; of the last one nothing is left."""
    bench.empty()
    receiver.bodies.clear()
    for name in ("systemctl.log", "aws.log"):
        (bench.folder / name).unlink(missing_ok=True)
    return make_quick_host(bench, receiver)


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.MISSING])
def test_boot(quick: Quick, receiver: Receiver, breakage: str) -> None:
    for step in breaking.sweep(quick):
        host = anew(quick, receiver)
        breaking.count(quick, breaking.OF_BOOT, caller="user_data.sh", breakage=breakage)
        done = boot(host, TORCHLIFT_SOURCE=write_bundle(quick))
        calls = breaking.steps(quick)
        if step == 0:
            assert done.returncode == 0 and receiver.bodies == [], done.stderr
            assert len(calls) >= 9, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {done.stderr}"
            assert done.returncode != 0, broken
            assert off(host), broken
            assert [body["Status"] for body in receiver.bodies] == ["FAILURE"], broken


@pytest.mark.long
def test_run(quick: Quick, receiver: Receiver) -> None:
    for step in breaking.sweep(quick):
        host = anew(quick, receiver)
        breaking.count(quick, OF_RUN, caller="instance_job/run.sh", breakage=breaking.FAILS)
        output = host.run()
        calls = breaking.steps(quick)
        statuses = [body["Status"] for body in receiver.bodies]
        if step == 0:
            assert statuses == ["SUCCESS"] and quick.is_published(), output
            assert len(calls) >= 15, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {output}"
            assert off(host), broken
            # What cannot be told is told by the event of the instance's end.
            # At the first step the environment is not there yet: the instance is off.
            untold = "signal.sh" in calls[step - 1] or step == 1
            right = ["SUCCESS"] if quick.is_published() else ["FAILURE"]
            assert statuses == right or (untold and not statuses), broken
            assert statuses != ["FAILURE"] or receiver.bodies[0]["Reason"], broken


@pytest.mark.long
def test_a_host_that_loses_its_power_and_starts_again(quick: Quick, receiver: Receiver) -> None:
    for step in breaking.sweep(quick, stride=4):
        host = anew(quick, receiver)
        breaking.count(quick, OF_RUN, caller="instance_job/run.sh", breakage=breaking.KILLED)
        output = host.run()
        assert step == 0 or len(receiver.bodies) <= 1, output
        told = [body["Status"] for body in receiver.bodies]
        if step:
            breaking.break_at(quick, 0)
            output += host.run()
            told = [body["Status"] for body in receiver.bodies]
        assert set(told) == {"SUCCESS"} and quick.is_published(), f"step {step}: {output}"
        assert off(host), f"step {step}: {output}"
