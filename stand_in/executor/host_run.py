"""The life of one instance in images mode: its user data on a host below a folder, its job in a container."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from stand_in.executor.host_process import HostProcess
from stand_in.executor.processes import tail
from stand_in.executor.site import Site
from stand_in.executor.state import JobState

log = logging.getLogger(__name__)
SHUTDOWN_SECONDS = 15.0
"""For the host's units to end by themselves; EC2 leaves longer, but nothing here has much to save."""
VERDICT = re.compile(r"^torchlift: (SUCCESS|FAILURE): (.*)$", re.MULTILINE)
"""The last line of hosts/instance_job/run.sh."""
UNIT = "torchlift-job.service"


class HostRun:
    """`live()` blocks until the host has ended; `stop()` ends it, and then nothing of it is left but its log."""

    leaving = False
    """Whether the instance asked for its own end: not known here, and the group's desired capacity says it, too."""

    def __init__(
        self,
        *,
        site: Site,
        region: str,
        instance_id: str,
        environment: Mapping[str, str],
        user_data: str,
        machine: Mapping[str, str],
        remove_containers: Callable[[], None],
    ) -> None:
        """Take note of what is to run.

        :param environment: the job's, as the user data carries it
        :param machine: the environment of a machine with `docker`, and with the role's credentials
        """
        self._site = site
        self._region = region
        self._instance_id = instance_id
        self._user_data = user_data
        self._machine = machine
        self._remove_containers = remove_containers
        job = environment.get("TORCHLIFT_JOB", "")
        self._log = site.log_path(f"instance-{job or 'unnamed'}")
        self._state = site.registry.add_job(
            JobState(
                job=job,
                kind="instance",
                hash=environment.get("TORCHLIFT_HASH", ""),
                log=self._log,
                mode="images",
            )
        )
        self._host = HostProcess(site=site, instance_id=instance_id, what=f"instance {job}", unit=UNIT, log=self._log)

    def live(self) -> None:
        """Boot the host and wait for its end, which the group is told unless it asked for it."""
        try:
            status = self._host.live(self._user_data, machine=self._machine)
        except Exception as error:  # the group must hear of it
            log.exception("instance %s", self._instance_id)
            self._state.end("failed", f"{type(error).__name__}: {error}")
        else:
            if not self._host.stopped and self._state.state == "running":
                self._state.end("failed", f"the host ended with status {status}: {tail(self._log, lines=5)}"[:1000])
        if not self._host.stopped:
            # An instance that is off counts as lost.
            with suppress(Exception):
                self._site.own_client("ec2", self._region).terminate_instances(InstanceIds=[self._instance_id])

    def stop(self) -> None:
        """The instance is gone: shut the host down, as far as it does so in time."""
        if self._host.stop(seconds=SHUTDOWN_SECONDS):
            self._remove_containers()
        if self._state.state == "running":
            self._state.end(*self._verdict())
        self._host.remove()

    def _verdict(self) -> tuple[str, str]:
        """How the job ended by its own account, and why when it failed."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        found = VERDICT.findall(text)
        if not found:
            return "stopped", "the instance was terminated"
        word, reason = found[-1]
        return ("succeeded", "") if word == "SUCCESS" else ("failed", reason)
