"""Foundation: what every workload stands on and no workload changes. It refers to no other stack."""

from __future__ import annotations

from aws_cdk import CfnOutput, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_logs as logs
from constructs import Construct

from settings import Settings, names
from stacks.deployment_stack import DeploymentStack, pascal
from torchlift.account_budget import AccountBudget
from torchlift.alarm_topic import AlarmTopic
from torchlift.artifact_bucket import ArtifactBucket
from torchlift.encryption_key import EncryptionKey
from torchlift.image_repository import ImageRepository
from torchlift.job_alarm import JobAlarm
from torchlift.network import ExistingNetwork, Network, NewNetwork
from torchlift.network_endpoints import SECRETS


class Foundation(DeploymentStack):
    """Network, key, bucket, repositories, job logs, alarm topic, budget."""

    def __init__(self, scope: Construct, *, settings: Settings) -> None:
        """Declare everything; workloads take it from the attributes."""
        super().__init__(scope, "Foundation", settings=settings, description="network, key, bucket and repositories")
        self._settings = settings
        ephemeral = settings.deployment.ephemeral
        self.key = EncryptionKey(
            self,
            "EncryptionKey",
            description=f"Torchlift {settings.deployment.name}",
            removal_policy=self.removal_policy,
        ).key
        self.network = self._build_network()
        self.bucket = ArtifactBucket(
            self,
            "Artifacts",
            key=self.key,
            ephemeral=ephemeral,
            log_retention=self.log_retention,
            expire_days=self._captures(),
        ).bucket
        self.repositories: dict[str, ecr.IRepository] = {
            name: ImageRepository(self, pascal(name), key=self.key, ephemeral=ephemeral).repository
            for name in names.REPOSITORIES
        }
        self.endpoint_security_groups = {
            workload: self._build_endpoint_security_group(workload) for workload in ("sentiment", "text-encoding")
        }
        self.alarm_topic = AlarmTopic(self, "Alarms", key=self.key, email=settings.alarms.email).topic
        self._build_job_logs()
        self._build_budget()
        CfnOutput(self, names.OUTPUT_BUCKET, value=self.bucket.bucket_name)
        self._build_exports()

    def _captures(self) -> dict[str, int]:
        """{prefix: days that an endpoint's captured data is kept}"""
        sentiment = self._settings.sentiment
        capture = sentiment.endpoint.data_capture if sentiment else None
        if capture is None or capture.keep_days is None:
            return {}
        return {names.captured_prefix("sentiment"): capture.keep_days}

    def _build_network(self) -> Network:
        network = self._settings.network
        if network.existing_vpc is not None:
            return ExistingNetwork(
                self,
                "Network",
                vpc_id=network.existing_vpc.vpc_id,
                cidr=network.existing_vpc.cidr,
                zones=network.zones,
                subnet_ids=network.existing_vpc.private_subnet_ids,
            )
        return NewNetwork(
            self,
            "Network",
            egress=network.egress,
            cidr=network.cidr,
            zones=network.zones,
            key=self.key,
            log_retention=self.log_retention,
            removal_policy=self.removal_policy,
            more_services=self._more_services(),
        )

    def _more_services(self) -> list[str]:
        answering = self._settings.question_answering
        return [SECRETS] if answering is not None and answering.token_secret_arn else []

    def _build_job_logs(self) -> None:
        """Here, not in the workloads' stacks: when one of those rolls back, the reason must stay readable.

        The names are fixed because operators look for them, so the groups always go with the stack: one that stayed
        would be in the way of the next deployment of the same name. Jobs know their group by that name.
        """
        deployment = self._settings.deployment.name
        for job in names.JOBS:
            group = logs.LogGroup(
                self,
                f"{pascal(job)}Logs",
                log_group_name=names.log_group_of_job(deployment, job),
                retention=self.log_retention,
                encryption_key=self.key,
                removal_policy=RemovalPolicy.DESTROY,
            )
            if job in names.INSTANCE_JOBS:
                JobAlarm(
                    self,
                    f"{pascal(job)}Failed",
                    deployment=deployment,
                    job=job,
                    log_group=group,
                    topic_arn=self.alarm_topic.topic_arn,
                )

    def _build_endpoint_security_group(self, workload: str) -> ec2.SecurityGroup:
        """Here, because SageMaker's network interfaces outlive the endpoint by minutes and hold the group."""
        group = ec2.SecurityGroup(
            self,
            f"{pascal(workload)}EndpointSecurityGroup",
            vpc=self.network.vpc,
            description=f"SageMaker endpoint {workload}: HTTPS out, nothing in",
            allow_all_outbound=False,
        )
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "Model archive, from S3")
        return group

    def _build_exports(self) -> None:
        """The same exports whatever the workloads import.

        CDK exports what is imported at the moment. A workload that changes its mode or goes would take exports with
        it while its stack as deployed still imports them, and CloudFormation refuses to remove an export in use.
        """
        values = [
            self.bucket.bucket_name,
            self.bucket.bucket_arn,
            self.key.key_arn,
            self.alarm_topic.topic_arn,
            *(group.security_group_id for group in self.endpoint_security_groups.values()),
        ]
        for repository in self.repositories.values():
            values += [repository.repository_name, repository.repository_arn]
        if isinstance(self.network, NewNetwork):
            values += [self.network.vpc.vpc_id, *(subnet.subnet_id for subnet in self.network.subnets)]
        for value in values:
            self.export_value(value)

    def _build_budget(self) -> None:
        budget = self._settings.budget
        if budget.monthly_usd is not None and budget.email is not None:
            AccountBudget(
                self,
                "Budget",
                monthly_usd=budget.monthly_usd,
                email=budget.email,
                topic_arn=self.alarm_topic.topic_arn,
            )
