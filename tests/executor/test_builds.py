"""A CodeBuild build is a process; however it ends, BatchGetBuilds and an event say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.executor.conftest import ROLE, World, eventually, zip_of


def start(world: World, job: str, **overrides: Any) -> str:
    """Make a project for the job and start a build; returns its id."""
    world.put("bundles", "source.zip", zip_of({"hello.txt": "from the bundle"}))
    world.client("logs").create_log_group(logGroupName="/jobs/builds")
    world.client("codebuild").create_project(
        name="project",
        source={"type": "S3", "location": "bundles/source.zip"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER", "image": "aws/codebuild/standard:7.0", "computeType": "BUILD_GENERAL1_SMALL",
            "environmentVariables": [{"name": "TORCHLIFT_JOB", "value": job}, {"name": "COLOUR", "value": "red"}],
        },
        serviceRole=ROLE,
        logsConfig={"cloudWatchLogs": {"status": "ENABLED", "groupName": "/jobs/builds"}},
    )  # fmt: skip
    world.record_events("builds", {"source": ["aws.codebuild"]})
    return str(world.client("codebuild").start_build(projectName="project", **overrides)["build"]["id"])


def build(world: World, build_id: str) -> Any:
    return world.client("codebuild").batch_get_builds(ids=[build_id])["builds"][0]


def end(world: World, build_id: str) -> Any:
    """The ended build."""
    return eventually(lambda: (found := build(world, build_id))["buildComplete"] and found)


def last_event(world: World) -> Any:
    def complete() -> Any:
        found = [one for one in world.events() if one["detail"]["additional-information"]["build-complete"]]
        return found and found[0]

    return eventually(complete)


def messages(world: World) -> list[str]:
    found = world.client("logs").filter_log_events(logGroupName="/jobs/builds")["events"]
    return [one["message"] for one in found]


def test_success(world: World, job: Callable[..., str]) -> None:
    blue = [{"name": "COLOUR", "value": "blue", "type": "PLAINTEXT"}]
    job("good", "cat hello.txt; echo; echo $COLOUR $CODEBUILD_BUILD_ID; sleep 0.5")
    build_id = start(world, "good", environmentVariablesOverride=blue)
    assert build(world, build_id)["buildStatus"] == "IN_PROGRESS"
    assert end(world, build_id)["buildStatus"] == "SUCCEEDED"
    detail = last_event(world)["detail"]
    assert (detail["build-status"], detail["project-name"]) == ("SUCCEEDED", "project")
    assert detail["build-id"].endswith(build_id)
    assert world.job("good")["state"] == "succeeded"
    eventually(lambda: messages(world) == ["from the bundle", f"blue {build_id}"])


def test_failure_carries_the_jobs_own_reason(world: World, job: Callable[..., str]) -> None:
    build_id = start(world, job("bad", "echo 'run: exit 3: no data' >$TORCHLIFT_WORK/reason.txt; exit 3"))
    ended = end(world, build_id)
    assert ended["buildStatus"] == "FAILED"
    contexts = [context["message"] for phase in ended["phases"] for context in phase.get("contexts", [])]
    assert contexts == ["run: exit 3: no data"]
    detail = last_event(world)["detail"]
    assert detail["build-status"] == "FAILED"
    phases = detail["additional-information"]["phases"]
    assert [one["phase-context"] for one in phases if one["phase-type"] == "BUILD"] == [["run: exit 3: no data"]]


def test_time_out(world: World, job: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    from stand_in.executor.jobs import JobRun

    original = JobRun.__post_init__

    def hurry(self: JobRun) -> None:
        original(self)
        self.timeout_s = 0.3

    monkeypatch.setattr(JobRun, "__post_init__", hurry)
    ended = end(world, start(world, job("slow", "sleep 60")))
    assert ended["buildStatus"] == "FAILED"
    assert "TIMED_OUT" in [phase.get("phaseStatus") for phase in ended["phases"]]
    assert last_event(world)["detail"]["build-status"] == "FAILED"


def test_stop(world: World, job: Callable[..., str]) -> None:
    build_id = start(world, job("long", "touch started; sleep 60"))
    eventually(lambda: build(world, build_id)["currentPhase"] == "BUILD")
    world.client("codebuild").stop_build(id=build_id)
    assert end(world, build_id)["buildStatus"] == "STOPPED"
    assert last_event(world)["detail"]["build-status"] == "STOPPED"
    assert world.job("long")["state"] == "stopped"


def test_provisioning_fault_and_unknown_job(world: World, job: Callable[..., str]) -> None:
    world.executor.faults.inject("provisioning", job("unlucky", "true"), "Insufficient capacity")
    build_id = start(world, "unlucky")
    ended = end(world, build_id)
    assert ended["buildStatus"] == "FAILED" and "Insufficient capacity" in str(ended["phases"])
    again = world.client("codebuild").start_build(
        projectName="project", environmentVariablesOverride=[{"name": "TORCHLIFT_JOB", "value": "who"}]
    )["build"]["id"]
    assert "direct mode does not know the job 'who'" in str(end(world, again)["phases"])
