"""CodeBuild for the stand-in: a build becomes a process, and its end an event, however it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from moto.codebuild.models import codebuild_backends

from stand_in.environment import ACCOUNT
from stand_in.events import Events
from stand_in.executor import direct, log_groups
from stand_in.executor.build_record import BuildRecord
from stand_in.executor.faults import Faults
from stand_in.executor.jobs import Ended, JobRun, SourceMissing
from stand_in.executor.modes import Build, Mode
from stand_in.executor.site import Site
from stand_in.executor.together import together

log = logging.getLogger(__name__)
LOGGED_LINES = 5000


class Builds:
    """Every build that was started."""

    def __init__(self, site: Site, events: Events, faults: Faults, mode: Mode) -> None:
        self._site = site
        self._mode = mode
        self._events = events
        self._faults = faults
        self._lock = threading.Lock()
        self._running: dict[str, tuple[JobRun, BuildRecord]] = {}
        self._closed = False

    def start(self, region: str, build_id: str, request: Mapping[str, Any]) -> None:
        """Start the build that moto has just recorded; `request` is the StartBuild call with its overrides."""
        backend = codebuild_backends[ACCOUNT][region]
        project = backend.codebuild_projects[request["projectName"]].project_metadata
        build = backend.batch_get_builds([build_id])[0]
        with self._site.moto_lock:
            environment = _apply(project, build, request)
        name = build_id.replace(":", "-")
        variables = environment | {
            "CODEBUILD_BUILD_ID": build_id,
            "CODEBUILD_BUILD_ARN": build["arn"],
            "CODEBUILD_RESOLVED_SOURCE_VERSION": "",
            "TORCHLIFT_SOURCE": environment.get("TORCHLIFT_SOURCE") or f"s3://{build['source'].get('location', '')}",
        }
        run = self._mode.build(
            Build(
                buildspec=str(project["source"].get("buildspec") or ""),
                region=region,
                environment=variables,
                number=name,
                role=str(project.get("serviceRole", "")),
                timeout_s=build["timeoutInMinutes"] * 60,
            )
        )
        run.extra = {"CODEBUILD_SRC_DIR": str(run.home)}
        logs = project.get("logsConfig", {}).get("cloudWatchLogs", {})
        group = logs.get("groupName") or f"/aws/codebuild/{request['projectName']}"
        stream = "/".join(part for part in (logs.get("streamName"), build_id.split(":")[-1]) if part)
        record = BuildRecord(build, region=region, log_group=group, log_stream=stream, lock=self._site.moto_lock)
        with self._lock:
            if self._closed:
                return
            self._running[build_id] = (run, record)
        threading.Thread(target=self._run, args=(run, record), name=f"build {run.job}", daemon=True).start()

    def stop(self, build_id: str) -> None:
        """What StopBuild asks for; harmless when the build has ended."""
        with self._lock:
            running = self._running.get(build_id) or next(
                (one for one in self._running.values() if one[1].build["arn"] == build_id), None
            )
        if running is not None:
            running[0].stop()

    def close(self) -> None:
        """End every build, without a word to anybody."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        together(run.stop for run, _ in running)

    def _run(self, run: JobRun, record: BuildRecord) -> None:
        try:
            self._events.deliver(record.event())
            self._phases(run, record)
        except Exception as error:  # a build must not end without its event
            log.exception("build %s", record.id)
            self._end(run, record, "FAULT", f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._running.pop(record.id, None)

    def _phases(self, run: JobRun, record: BuildRecord) -> None:
        record.enter("PROVISIONING")
        fault = self._faults.take("provisioning", run.job)
        if fault is not None:
            self._end(run, record, "FAILED", fault, phase_status="FAULT")
            return
        record.enter("DOWNLOAD_SOURCE")
        try:
            run.fetch_source()
            for phase in ("INSTALL", "PRE_BUILD", "BUILD"):
                record.enter(phase)
            ended = run.run()
        except (SourceMissing, direct.NoDirectMode) as error:
            self._end(run, record, "FAILED", str(error))
            return
        self._report(run, record, ended)

    def _report(self, run: JobRun, record: BuildRecord, ended: Ended) -> None:
        if ended.status == 0:
            for phase in ("POST_BUILD", "UPLOAD_ARTIFACTS", "FINALIZING"):
                record.enter(phase)
            self._end(run, record, "SUCCEEDED", "")
        elif ended.timed_out:
            # CodeBuild's status for a build that ran out of time is TIMED_OUT, its event's is FAILED.
            self._end(run, record, "FAILED", ended.reason, phase_status="TIMED_OUT")
        elif ended.status is None:
            self._end(run, record, "STOPPED", ended.reason)
        else:
            self._end(run, record, "FAILED", ended.reason)

    def _end(
        self, run: JobRun, record: BuildRecord, status: str, message: str, *, phase_status: str | None = None
    ) -> None:
        if message:
            run.note(message)
        if not record.end(status, message=message, phase_status=phase_status):
            return
        states = {"SUCCEEDED": "succeeded", "STOPPED": "stopped"}
        run.state.end(states.get(status, "failed"), message)
        run.clean()
        lines = run.log.read_text(errors="replace").splitlines()[-LOGGED_LINES:] if run.log.exists() else []
        try:
            log_groups.write(self._site.moto_lock, ACCOUNT, record.region, record.log_group, record.log_stream, lines)
        except log_groups.NoSuchLogGroup as error:
            log.error("build %s: %s", record.id, error)
        if not self._closed:
            self._events.deliver(record.event())


def _apply(project: Mapping[str, Any], build: dict[str, Any], request: Mapping[str, Any]) -> dict[str, str]:
    """Put what the project and the call's overrides say into moto's build; returns its environment variables."""
    variables = {one["name"]: one for one in project["environment"].get("environmentVariables") or []}
    variables |= {one["name"]: one for one in request.get("environmentVariablesOverride") or []}
    build["environment"] = {**project["environment"], "environmentVariables": list(variables.values())}
    build["source"] = {**project["source"]}
    if request.get("sourceTypeOverride"):
        build["source"]["type"] = request["sourceTypeOverride"]
    if request.get("sourceLocationOverride"):
        build["source"]["location"] = request["sourceLocationOverride"]
    timeout = request.get("timeoutInMinutesOverride") or project.get("timeoutInMinutes") or 60
    build |= {"timeoutInMinutes": int(timeout), "initiator": "stand-in", "buildComplete": False}
    return {name: str(one["value"]) for name, one in variables.items()}
