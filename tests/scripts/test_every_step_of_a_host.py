"""Each step of a job's host broken once, at boot and in run.sh: the stack is told once, and nothing goes on costing."""

from __future__ import annotations

import pytest

from tests.scripts import breaking
from tests.scripts.conftest import Workbench
from tests.scripts.job_host import Host, boot, make_host, write_bundle
from tests.support.receiver import Receiver

PREFIX = "weights/test/0123456789abcdef/"
OF_BOOT = ("rm", "install", "df", "tail", "tr", "timeout", "python3", "systemctl")
OF_RUN = (
    "mkdir",
    "aws",
    "date",
    "docker",
    "bash",
    "chown",
    "nvidia-smi",
    "sha256sum",
    "timeout",
    "tail",
)


def off(host: Host) -> bool:
    """Whether the instance costs nothing more: out of its group, or off."""
    calls = host.bench.folder / "systemctl.log"
    return host.capacity() == (0, 0) or (calls.exists() and "poweroff" in calls.read_text())


def published(bench: Workbench) -> bool:
    return f"{PREFIX}manifest.json" in bench.keys(PREFIX)


def anew(bench: Workbench, receiver: Receiver) -> Host:
    """Another instance of another group; of the last one nothing is left."""
    bench.empty()
    receiver.bodies.clear()
    (bench.folder / "systemctl.log").unlink(missing_ok=True)
    return make_host(bench, receiver)


@pytest.mark.long
@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.MISSING])
def test_boot(bench: Workbench, receiver: Receiver, breakage: str) -> None:
    number, step = 1, 0
    while step <= number:
        host = anew(bench, receiver)
        breaking.count(bench, OF_BOOT, caller="user_data.sh", breakage=breakage)
        breaking.break_at(bench, step)
        done = boot(host, TORCHLIFT_SOURCE=write_bundle(bench))
        calls = breaking.steps(bench)
        if step == 0:
            assert done.returncode == 0 and receiver.bodies == [], done.stderr
            number = len(calls)
            assert number >= 9, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {done.stderr}"
            assert done.returncode != 0, broken
            assert off(host), broken
            assert [body["Status"] for body in receiver.bodies] == ["FAILURE"], broken
        step += 1


@pytest.mark.long
def test_run(bench: Workbench, receiver: Receiver) -> None:
    number, step = 1, 0
    while step <= number:
        host = anew(bench, receiver)
        breaking.count(bench, OF_RUN, caller="instance_job/run.sh", breakage=breaking.FAILS)
        breaking.break_at(bench, step)
        output = host.run()
        calls = breaking.steps(bench)
        statuses = [body["Status"] for body in receiver.bodies]
        if step == 0:
            assert statuses == ["SUCCESS"] and published(bench), output
            number = len(calls)
            assert number >= 15, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {output}"
            assert off(host), broken
            # What cannot be told is told by the event of the instance's end.
            # At the first step the environment is not there yet: the instance is off.
            untold = "signal.sh" in calls[step - 1] or step == 1
            assert statuses == (["SUCCESS"] if published(bench) else ["FAILURE"]) or (untold and not statuses), broken
            assert statuses != ["FAILURE"] or receiver.bodies[0]["Reason"], broken
        step += 1


@pytest.mark.long
def test_a_host_that_loses_its_power_and_starts_again(bench: Workbench, receiver: Receiver) -> None:
    number, step = 1, 0
    while step <= number:
        host = anew(bench, receiver)
        breaking.count(bench, OF_RUN, caller="instance_job/run.sh", breakage=breaking.KILLED)
        breaking.break_at(bench, step)
        output = host.run()
        number = number if step else len(breaking.steps(bench))
        assert step == 0 or len(receiver.bodies) <= 1, output
        told = [body["Status"] for body in receiver.bodies]
        if step:
            breaking.break_at(bench, 0)
            output += host.run()
            told = [body["Status"] for body in receiver.bodies]
        assert set(told) == {"SUCCESS"} and published(bench), f"step {step}: {output}"
        assert off(host), f"step {step}: {output}"
        step += 1 if step == 0 else 4
