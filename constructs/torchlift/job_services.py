"""JobServices: the two small functions that start jobs and report how they ended; one pair a stack."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from settings import names
from torchlift import permissions
from torchlift.handler_function import HandlerFunction
from torchlift.job_data import JobResult


class JobServices(Construct):
    """``start_job`` (custom resource) and ``signal_job`` (target of each job's EventBridge rule)."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        deployment: str,
        workload: str,
        log_retention: logs.RetentionDays,
        alarm_topic_arn: str,
        key: kms.IKey | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.DESTROY,
    ) -> None:
        """Declare both functions.

        :param deployment: name of the deployment: part of group names and of every job's environment
        :param workload: value of the tag ``torchlift:workload`` on what the jobs start
        :param alarm_topic_arn: who is told of a job that failed; encrypted with ``key`` if there is one
        :param key: customer key for the functions' log groups
        """
        super().__init__(scope, id)
        self.deployment = deployment
        self.workload = workload
        self.start = HandlerFunction(
            self,
            "StartJob",
            handler="start_job",
            description="Starts a job once, unless its result is there already",
            log_retention=log_retention,
            removal_policy=removal_policy,
            key=key,
            # A new account allows few builds at once: waiting for a free one takes minutes.
            timeout=Duration.minutes(14),
        )
        self.signal = HandlerFunction(
            self,
            "SignalJob",
            handler="signal_job",
            description="Tells the stack how a job ended, and people when it failed",
            log_retention=log_retention,
            removal_policy=removal_policy,
            key=key,
            timeout=Duration.minutes(2),
            environment={
                "TORCHLIFT_DEPLOYMENT": deployment,
                "TORCHLIFT_JOB_LOGS": names.log_group_of_job(deployment, ""),
                "TORCHLIFT_TOPIC_ARN": alarm_topic_arn,
            },
        )
        permissions.publish(self.signal.role, topic_arn=alarm_topic_arn, key=key)
        permissions.allow(
            self.signal.role,
            actions=["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"],
            resources=["*"],
            why="Neither call supports resource-level permissions",
        )

    def allow_build(self, *, project_arn: str, result: JobResult) -> None:
        """Let the functions start and read builds of one project, and look for its result."""
        permissions.allow(self.start.role, actions=["codebuild:StartBuild"], resources=[project_arn])
        permissions.allow(self.signal.role, actions=["codebuild:BatchGetBuilds"], resources=[project_arn])
        result.grant_probe(self.start.role)

    def allow_group(self, *, group_arn: str, result: JobResult) -> None:
        """Let the functions turn one Auto Scaling group on and off, and look for its result."""
        for function in (self.start, self.signal):
            permissions.allow(
                function.role,
                actions=["autoscaling:SetDesiredCapacity"],
                resources=[group_arn],
                why=permissions.GROUP_ID,
            )
            result.grant_probe(function.role)
