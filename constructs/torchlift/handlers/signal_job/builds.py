"""What the end of a CodeBuild build means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import boto3

from torchlift.handlers.signal_job.verdict import Verdict


def judge_build(event: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a *CodeBuild Build State Change* event.

    Only SUCCEEDED is success. No other status is listed: faults and time-outs may come under any name.
    """
    detail = event["detail"]
    status = str(detail["build-status"])
    build_id = str(detail["build-id"]).rsplit("build/", 1)[-1]
    if status == "IN_PROGRESS":
        return Verdict(ended=False, success=False, reason=f"build {build_id} goes on")
    if status == "SUCCEEDED":
        return Verdict(ended=True, success=True, reason=f"build {build_id} succeeded")
    codebuild: Any = boto3.client("codebuild")
    builds = codebuild.batch_get_builds(ids=[build_id]).get("builds", [])
    build = builds[0] if builds else {}
    parts = [f"build {build_id} {status}", failing_phase(build.get("phases", []))]
    link = build.get("logs", {}).get("deepLink")
    if link:
        parts.append(f"log: {link}")
    return Verdict(ended=True, success=False, reason="; ".join(part for part in parts if part))


def failing_phase(phases: Iterable[Mapping[str, Any]]) -> str:
    """Return the first phase that did not succeed, with what CodeBuild says about it."""
    for phase in phases:
        status = phase.get("phaseStatus", "SUCCEEDED")
        if status != "SUCCEEDED":
            messages = [context.get("message", "") for context in phase.get("contexts", [])]
            said = " ".join(message for message in messages if message)
            return f"phase {phase.get('phaseType')} {status}" + (f" ({said})" if said else "")
    return ""
