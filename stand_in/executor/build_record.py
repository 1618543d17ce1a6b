"""A CodeBuild build as BatchGetBuilds and its events show it: phases, times, status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

from stand_in.environment import ACCOUNT
from stand_in.events import new_event

EVENT_TIME = "%b %d, %Y %I:%M:%S %p"
"""How CodeBuild writes times in its events."""


def _now() -> datetime:
    return datetime.now(UTC)


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class BuildRecord:
    """Wraps the build that moto keeps (`build`, a dictionary in BatchGetBuilds' shape) and changes it in place."""

    def __init__(
        self,
        build: dict[str, Any],
        *,
        region: str,
        log_group: str,
        log_stream: str,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.build = build
        self.region = region
        self.log_group = log_group
        self.log_stream = log_stream
        self._phase_began = _now()
        self._lock = lock
        link = (
            f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logsV2:log-groups/log-group/"
            f"{log_group.replace('/', '$252F')}/log-events/{log_stream.replace('/', '$252F')}"
        )
        with lock:
            build["logs"] = {
                "groupName": log_group,
                "streamName": log_stream,
                "deepLink": link,
                "cloudWatchLogsArn": f"arn:aws:logs:{region}:{ACCOUNT}:log-group:{log_group}:log-stream:{log_stream}",
                "cloudWatchLogs": {"status": "ENABLED", "groupName": log_group},
                "s3Logs": {"status": "DISABLED", "encryptionDisabled": False},
            }

    @property
    def id(self) -> str:
        """`<project>:<uuid>`."""
        return str(self.build["id"])

    @property
    def ended(self) -> bool:
        """Whether the build has its final status."""
        return bool(self.build["buildComplete"])

    def enter(self, phase: str) -> None:
        """End the current phase with success and begin the next."""
        with self._lock:
            self._close("SUCCEEDED", "")
            self.build["phases"].append({"phaseType": phase, "startTime": _iso(_now())})
            self.build["currentPhase"] = phase

    def end(self, status: str, *, message: str = "", phase_status: str | None = None) -> bool:
        """Give the build its final status; false, and nothing done, when it has one already.

        :param phase_status: how the current phase ended, when that differs from `status`
        """
        with self._lock:
            if self.ended:
                return False
            self._close(phase_status or status, message)
            moment = _iso(_now())
            self.build["phases"].append({"phaseType": "COMPLETED", "startTime": moment})
            self.build |= {
                "currentPhase": "COMPLETED",
                "buildStatus": status,
                "endTime": moment,
                "buildComplete": True,
            }
            return True

    def _close(self, status: str, message: str) -> None:
        phase, moment = self.build["phases"][-1], _now()
        phase["phaseStatus"] = status
        phase["endTime"] = _iso(moment)
        phase["durationInSeconds"] = int((moment - self._phase_began).total_seconds())
        if message:
            phase["contexts"] = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": message}]
        self._phase_began = moment

    def event(self) -> dict[str, Any]:
        """The *CodeBuild Build State Change* event of the build as it is now."""
        build = self.build
        project = str(build["projectName"])
        information = {
            "artifact": {"location": ""},
            "environment": _environment(build["environment"]),
            "timeout-in-minutes": build["timeoutInMinutes"],
            "build-complete": build["buildComplete"],
            "initiator": build["initiator"],
            "build-start-time": _event_time(build["startTime"]),
            "source": {"type": build["source"]["type"], "location": build["source"].get("location", "")},
            "logs": {
                "group-name": self.log_group,
                "stream-name": self.log_stream,
                "deep-link": build["logs"]["deepLink"],
            },
            "phases": _phases(build["phases"]),
        }
        detail = {
            "build-status": build["buildStatus"],
            "project-name": project,
            "build-id": build["arn"],
            "additional-information": information,
            "current-phase": build["currentPhase"],
            "current-phase-context": "[]",
            "version": "1",
        }
        return new_event(
            source="aws.codebuild",
            detail_type="CodeBuild Build State Change",
            detail=detail,
            resources=[build["arn"]],
            region=self.region,
        )


def _environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "image": environment["image"],
        "privileged-mode": environment.get("privilegedMode", False),
        "compute-type": environment["computeType"],
        "type": environment["type"],
        "environment-variables": [
            {"name": one["name"], "value": one["value"], "type": one.get("type", "PLAINTEXT")}
            for one in environment.get("environmentVariables", [])
        ],
    }


def _phases(phases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    shown = []
    for phase in phases:
        entry: dict[str, Any] = {
            "phase-type": phase["phaseType"],
            "start-time": _event_time(phase["startTime"]),
            "phase-context": [one["message"] for one in phase.get("contexts", [])],
        }
        if "phaseStatus" in phase:
            entry["phase-status"] = phase["phaseStatus"]
        if "endTime" in phase:
            entry["end-time"] = _event_time(phase["endTime"])
            entry["duration-in-seconds"] = phase["durationInSeconds"]
        shown.append(entry)
    return shown


def _event_time(iso: str) -> str:
    return datetime.fromisoformat(iso.replace("Z", "+00:00")).strftime(EVENT_TIME)
