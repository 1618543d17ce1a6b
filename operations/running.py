"""What serves, rings and runs at the moment, as lines for `torchlift status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import error_code
from operations.fleets import TAG_JOB
from settings import names

LINE = 120
"""Characters shown of a log line."""


def endpoints(account: Account) -> Iterator[str]:
    """Each endpoint's state, its variants, and why its last update failed: SageMaker rolls back without a word."""
    for workload in ("sentiment", "text-encoding"):
        name = account.parameter(workload, "endpoint")
        if name is not None:
            yield from _endpoint(account, name)


def _endpoint(account: Account, name: str) -> Iterator[str]:
    try:
        found = account.client("sagemaker").describe_endpoint(EndpointName=name)
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        yield f"Endpoint {name} does not exist."
        return
    yield f"Endpoint {name}: {found['EndpointStatus']}, configuration {found['EndpointConfigName']}"
    for variant in found.get("ProductionVariants", []):
        counts = f"{variant.get('CurrentInstanceCount', '?')} of {variant.get('DesiredInstanceCount', '?')} instances"
        yield f"  variant {variant['VariantName']}: {counts}, weight {variant.get('CurrentWeight', 0):g}"
    if found.get("PendingDeploymentSummary"):
        yield f"  updating to {found['PendingDeploymentSummary']['EndpointConfigName']}"
    if found.get("FailureReason"):
        yield f"  last update failed: {' '.join(found['FailureReason'].split())}"


def alarms(account: Account, resources: list[dict[str, Any]]) -> Iterator[str]:
    """The stacks' alarms that ring."""
    ours = [
        item["PhysicalResourceId"]
        for item in resources
        if item["ResourceType"] in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
        and item.get("PhysicalResourceId")
    ]
    for start in range(0, len(ours), 100):
        found = account.client("cloudwatch").describe_alarms(
            AlarmNames=ours[start : start + 100], AlarmTypes=["MetricAlarm", "CompositeAlarm"]
        )
        for alarm in [*found.get("MetricAlarms", []), *found.get("CompositeAlarms", [])]:
            if alarm["StateValue"] == "ALARM":
                yield f"ALARM {alarm['AlarmName']}: {' '.join(alarm.get('StateReason', '').split())}"


def jobs(account: Account, resources: list[dict[str, Any]]) -> Iterator[str]:
    """The stacks' jobs that run, each with its last log line and where the rest is."""
    for job in sorted({*_builds(account, resources), *_instances(account, resources)}):
        group = names.log_group_of_job(account.deployment, job)
        yield f"Running {job}: {_last_line(account, group) or 'no line yet'}"
        # The console's own escaping of a log group's name: "$25" for "%", so "/" is "$252F".
        escaped = group.replace("/", "$252F")
        yield f"  https://{account.region}.console.aws.amazon.com/cloudwatch/home?region={account.region}" + (
            f"#logsV2:log-groups/log-group/{escaped}"
        )


def _builds(account: Account, resources: list[dict[str, Any]]) -> Iterator[str]:
    projects = _ids(resources, "AWS::CodeBuild::Project")
    codebuild = account.client("codebuild")
    for start in range(0, len(projects), 100):
        for project in codebuild.batch_get_projects(names=projects[start : start + 100])["projects"]:
            job = _job({tag["key"]: tag["value"] for tag in project.get("tags", [])})
            builds = codebuild.list_builds_for_project(projectName=project["name"], sortOrder="DESCENDING")["ids"][:1]
            if job and builds and codebuild.batch_get_builds(ids=builds)["builds"][0]["buildStatus"] == "IN_PROGRESS":
                yield job


def _instances(account: Account, resources: list[dict[str, Any]]) -> Iterator[str]:
    groups = _ids(resources, "AWS::AutoScaling::AutoScalingGroup")
    if not groups:
        return
    found = account.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=groups)
    for group in found["AutoScalingGroups"]:
        job = _job({tag["Key"]: tag["Value"] for tag in group.get("Tags", [])})
        # The fleet runs for ever.
        if job and job != names.QUESTION_ANSWERING_FLEET and group["DesiredCapacity"] > 0:
            yield job


def _ids(resources: list[dict[str, Any]], kind: str) -> list[str]:
    found = [item.get("PhysicalResourceId") for item in resources if item["ResourceType"] == kind]
    return [str(id) for id in found if id]


def _job(tags: dict[str, str]) -> str | None:
    return tags.get(TAG_JOB)


def _last_line(account: Account, group: str) -> str | None:
    logs = account.client("logs")
    try:
        streams = logs.describe_log_streams(logGroupName=group, orderBy="LastEventTime", descending=True, limit=1)
        for stream in streams["logStreams"]:
            events = logs.get_log_events(
                logGroupName=group, logStreamName=stream["logStreamName"], limit=10, startFromHead=False
            )["events"]
            # Metrics in the log are for CloudWatch, not for people.
            lines = [event["message"] for event in events if not event["message"].startswith(names.METRIC_LINE)]
            return " ".join(lines[-1].split())[:LINE] if lines else None
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
    return None
