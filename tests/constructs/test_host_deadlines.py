"""The units that hosts boot end after the scripts' own deadlines, and not later than their stacks wait."""

from __future__ import annotations

import re

from settings import REPO_ROOT
from torchlift.fleet_group import SIGNAL_WAIT
from torchlift.inferentia_fleet import HOST_DEADLINE
from torchlift.job_signal import WAIT_SECONDS


def start_timeout(unit: str) -> int:
    found = re.search(r"^TimeoutStartSec=(\d+)$", (REPO_ROOT / "hosts" / unit).read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def test_a_job_may_last_as_long_as_its_stack_waits() -> None:
    # run.sh ends it before, at the job's own deadline.
    assert start_timeout("instance_job/torchlift-job.service") == int(WAIT_SECONDS)


def test_a_fleet_host_gives_up_by_itself() -> None:
    # fleet.sh then signals the failure; systemd would end it without a word.
    assert HOST_DEADLINE.to_seconds() < SIGNAL_WAIT.to_seconds() < start_timeout("inferentia/torchlift-fleet.service")
