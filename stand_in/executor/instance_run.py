"""The life of one instance: fetch the bundle, run the job, signal, terminate itself in its group."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from stand_in.executor import direct
from stand_in.executor.jobs import Ended, JobRun, SourceMissing
from stand_in.executor.site import Site

log = logging.getLogger(__name__)
SIGNAL_SECONDS = 120


class InstanceRun:
    """`live()` blocks until the instance has ended itself, or was ended from outside by `stop()`."""

    def __init__(self, *, site: Site, region: str, instance_id: str, environment: Mapping[str, str], role: str) -> None:
        self._site = site
        self._region = region
        self._instance_id = instance_id
        self._job = JobRun(
            site=site,
            region=region,
            kind="instance",
            environment={**environment, "TORCHLIFT_INSTANCE_ID": instance_id},
            number=instance_id,
            role=role,
            timeout_s=float(environment.get("TORCHLIFT_DEADLINE_SECONDS", 0)) or None,
        )
        self.leaving = False
        """Whether the instance asked for its own end."""

    def live(self) -> None:
        """Do what the instance's user data and unit would do."""
        try:
            ended = self._work()
        except (SourceMissing, direct.NoDirectMode) as error:
            ended = Ended(status=1, reason=str(error))
        except Exception as error:  # the stack must hear of it
            log.exception("instance %s", self._instance_id)
            ended = Ended(status=1, reason=f"{type(error).__name__}: {error}")
        if self._job.stopped:
            return
        success = ended.status == 0
        if ended.reason:
            self._job.note(ended.reason)
        try:
            if not self._signal(success, ended.reason):
                self._job.note("the signal could not be delivered")
        finally:
            self._job.state.end("succeeded" if success else "failed", ended.reason)
            self._terminate()

    def stop(self) -> None:
        """The instance is gone: end its processes. It no longer signals anything."""
        self._job.stop()
        if self._job.state.state == "running":
            self._job.state.end("stopped", "the instance was terminated")
        self._job.clean()

    def _work(self) -> Ended:
        self._job.fetch_source()
        return self._job.run()

    def _signal(self, success: bool, reason: str) -> bool:
        """Signal with the bundle's own script, as `hosts/instance_job/run.sh` does; false when that failed."""
        script = self._job.home / "scripts" / "signal.sh"
        if not script.exists():
            return False
        command = ["bash", str(script), "SUCCESS" if success else "FAILURE", reason]
        child = self._job.start(command, self._job.variables())
        try:
            return child.wait(SIGNAL_SECONDS) == 0
        finally:
            child.stop()
            self._site.registry.process_ended(child.pid)

    def _terminate(self) -> None:
        self.leaving = True
        try:
            self._site.client(
                "autoscaling", self._region, role=self._job.role
            ).terminate_instance_in_auto_scaling_group(
                InstanceId=self._instance_id, ShouldDecrementDesiredCapacity=True
            )
        except Exception as error:  # terminated from outside in the meantime
            log.warning("instance %s could not end itself: %s", self._instance_id, error)
