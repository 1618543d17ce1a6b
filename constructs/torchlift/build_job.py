"""BuildJob: work that a CodeBuild build does once per content hash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from torchlift import permissions
from torchlift.job_data import JobInput, JobResult
from torchlift.job_scope import job_scope
from torchlift.job_services import JobServices
from torchlift.job_signal import JobSignal
from torchlift.source_bundle import SourceBundle

# CodeBuild's own images, by architecture: (environment type, image).
BUILDERS = {
    "arm64": ("ARM_CONTAINER", "aws/codebuild/amazonlinux-aarch64-standard:3.0"),
    "x86_64": ("LINUX_CONTAINER", "aws/codebuild/amazonlinux2-x86_64-standard:5.0"),
}
# One hour less than the wait condition lasts: a build may have to wait for its turn.
MAX_TIMEOUT = Duration.hours(11)


class BuildJob(Construct):
    """A project (outside the VPC) whose one build runs ``scripts/run_job.sh``; done when the result exists.

    The build is started on create only, with source and environment as overrides. A build that ends in any way, also
    before its first command, is reported to the wait condition.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        services: JobServices,
        job: str,
        hash: str,
        result: JobResult,
        source: SourceBundle,
        command: str,
        log_group: logs.ILogGroup,
        inputs: Sequence[JobInput] = (),
        environment: Mapping[str, str] | None = None,
        install: Sequence[str] = (),
        architecture: str = "arm64",
        compute_type: str = "BUILD_GENERAL1_SMALL",
        privileged: bool = False,
        key: kms.IKey | None = None,
        timeout: Duration | None = None,
        after: Sequence[IDependable] = (),
    ) -> None:
        """Declare the job.

        :param job: tag value, such as ``hub-mirror``
        :param hash: 16 hexadecimal digits of :func:`torchlift.content_hash.job_hash`; part of ``result``
        :param source: must hold ``scripts/`` besides what ``command`` runs
        :param command: shell command, run in the work folder (``inputs/``, ``output/``)
        :param install: buildspec commands before the job, such as pinned ``pip install`` lines
        :param architecture: ``arm64`` or ``x86_64``
        :param privileged: only for builds of images, which need Docker
        :param key: customer key with which CodeBuild encrypts what it keeps
        :param timeout: at most 11 hours; one hour when left out
        :param after: jobs whose results are inputs (their ``done``)
        :raises ValueError: an argument is outside its bounds
        """
        super().__init__(scope, id)
        timeout = timeout or Duration.hours(1)
        if not 5 <= timeout.to_minutes() <= MAX_TIMEOUT.to_minutes():
            raise ValueError(f"{job}: a build may take 5 minutes to 11 hours, not {timeout.to_minutes()} minutes")
        if architecture not in BUILDERS:
            raise ValueError(f"{job}: no builder for '{architecture}', only for {', '.join(BUILDERS)}")
        environment_type, image = BUILDERS[architecture]
        variables = {
            "TORCHLIFT_JOB": job,
            "TORCHLIFT_HASH": hash,
            "TORCHLIFT_DEPLOYMENT": services.deployment,
            **result.variables,
            "TORCHLIFT_INPUTS": " ".join(item.entry for item in inputs),
            "TORCHLIFT_COMMAND": command,
            "TORCHLIFT_SOURCE": source.s3_url,
            **(environment or {}),
        }
        details = {
            "image": image,
            "compute": compute_type,
            "privileged": privileged,
            "timeout": timeout.to_minutes(),
            "buildspec": buildspec(install),
            "variables": variables,
            "logs": log_group.log_group_name,
            "key": key.key_arn if key else "",
        }
        inner = job_scope(self, job=job, hash=hash, workload=services.workload, details=details)
        signal = JobSignal(inner, "Signal", services=services, job=job, result=result)

        self.result_uri: str = result.uri
        self.role = self._build_role(inner)
        permissions.write_logs(self.role, log_group=log_group)
        source.grant_build(self.role)
        result.grant_publish(self.role)
        for item in inputs:
            item.grant_read(self.role)

        self.project = codebuild.CfnProject(
            inner,
            "Project",
            description=f"{job} {hash}",
            service_role=self.role.role_arn,
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type=environment_type, image=image, compute_type=compute_type, privileged_mode=privileged
            ),
            source=codebuild.CfnProject.SourceProperty(
                type="S3", location=source.location, build_spec=buildspec(install)
            ),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=log_group.log_group_name, stream_name=job
                )
            ),
            timeout_in_minutes=timeout.to_minutes(),
            queued_timeout_in_minutes=60,
            encryption_key=key.key_arn if key else None,
        )
        services.allow_build(project_arn=self.project.attr_arn, result=result)
        self.done: IDependable = signal.run(
            event_pattern={
                "source": ["aws.codebuild"],
                "detail-type": ["CodeBuild Build State Change"],
                "detail": {
                    "build-status": [{"anything-but": "IN_PROGRESS"}],
                    "project-name": [self.project.ref],
                },
            },
            group="",
            properties={
                "Kind": "build",
                "ProjectName": self.project.ref,
                "SourceLocation": source.location,
                "Environment": {**variables, "TORCHLIFT_HANDLE": signal.url},
                "BuildTimeoutMinutes": timeout.to_minutes(),
            },
            after=[self.role, self.project, *after],
        )

    def _build_role(self, inner: Construct) -> iam.Role:
        stack = Stack.of(self)
        projects = f"arn:{Aws.PARTITION}:codebuild:{stack.region}:{stack.account}:project/*"
        return iam.Role(
            inner,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com",
                # The project's own name is not known before the role exists.
                conditions=permissions.this_account_only(stack, source_arn=projects),
            ),
        )


def buildspec(install: Sequence[str]) -> str:
    """Return the buildspec as JSON: nothing but installs and the one script that runs every job."""
    phases: dict[str, object] = {
        "build": {
            "commands": [
                'export TORCHLIFT_HOME="$CODEBUILD_SRC_DIR"',
                'bash "$TORCHLIFT_HOME/scripts/run_job.sh"',
            ]
        }
    }
    if install:
        phases = {"install": {"commands": list(install)}, **phases}
    return json.dumps({"version": "0.2", "env": {"shell": "bash"}, "phases": phases}, sort_keys=True)
