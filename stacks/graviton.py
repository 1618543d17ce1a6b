"""Graviton: from weights to an endpoint on Arm."""

from __future__ import annotations

from aws_cdk import CfnOutput, RemovalPolicy
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from settings import Settings, names
from settings.hardware import ml_instance
from settings.images import base_image
from settings.models import SentimentEndpoint
from stacks import bundles
from stacks.deployment_stack import DeploymentStack
from stacks.foundation import Foundation
from stacks.images import OwnImage, build_image
from stacks.training import Training
from torchlift.build_job import BuildJob
from torchlift.content_hash import job_hash
from torchlift.job_data import JobResult
from torchlift.job_services import JobServices
from torchlift.sagemaker_endpoint import Fleet, ModelSource, SageMakerEndpoint
from torchlift.source_bundle import SourceBundle

WORKLOAD = "sentiment"
REPOSITORY = "sentiment-serving"
PACKAGE_PREFIX = "packages/sentiment/"
ARCHIVE = "model.tar.gz"


class Graviton(DeploymentStack):
    """Serving image, package and endpoint of the sentiment model."""

    def __init__(
        self,
        scope: Construct,
        *,
        settings: Settings,
        endpoint: SentimentEndpoint,
        foundation: Foundation,
        training: Training,
    ) -> None:
        """Declare the jobs and the endpoint."""
        super().__init__(
            scope, "Graviton", settings=settings, description="sentiment endpoint on Graviton", workload=WORKLOAD
        )
        self._settings = settings
        self._endpoint = endpoint
        self._foundation = foundation
        self._services = JobServices(
            self,
            "Jobs",
            deployment=settings.deployment.name,
            workload=WORKLOAD,
            log_retention=self.log_retention,
            key=foundation.key,
        )
        # The weights' address is known at synth, so nothing else tells CloudFormation that they must be there first.
        self.add_stack_dependency(training)
        image = self._build_image()
        package, package_job = self._build_package(training)
        self.endpoint = self._build_endpoint(image, package, package_job)
        ssm.StringParameter(
            self,
            "EndpointParameter",
            parameter_name=names.parameter_name(settings.deployment.name, WORKLOAD, "endpoint"),
            description="The sentiment endpoint: clients read its name here",
            string_value=self.endpoint.name,
        )
        CfnOutput(self, names.OUTPUT_SENTIMENT_ENDPOINT, value=self.endpoint.name)

    def _build_image(self) -> OwnImage:
        return build_image(
            self,
            foundation=self._foundation,
            services=self._services,
            job="serving-image",
            repository=REPOSITORY,
            base=base_image("pytorch-inference-arm64"),
            region=self._settings.deployment.region,
        )

    def _build_package(self, training: Training) -> tuple[JobResult, BuildJob]:
        source = SourceBundle(
            self,
            "PackageSource",
            paths=[bundles.SCRIPTS, *bundles.PACKAGING],
            exclude=bundles.ONLY_FOR_IMAGES,
        )
        command = f"python3 -m model_code.sentiment.package --weights inputs/weights --output output/{ARCHIVE}"
        hash = job_hash(
            job="sentiment-package",
            bundle_hash=source.content_hash,
            parameters={"command": command, "weights": training.weights.identity},
        )
        result = JobResult.in_s3(
            bucket=self._foundation.bucket, prefix=f"{PACKAGE_PREFIX}{hash}/", key=self._foundation.key
        )
        job = BuildJob(
            self,
            "Package",
            services=self._services,
            job="sentiment-package",
            hash=hash,
            result=result,
            source=source,
            command=command,
            inputs=[training.weights.as_input(self, "Weights", name="weights")],
            architecture="arm64",
            log_group=self.job_logs("sentiment-package"),
            key=self._foundation.key,
        )
        return result, job

    def _build_endpoint(self, image: OwnImage, package: JobResult, package_job: BuildJob) -> SageMakerEndpoint:
        foundation, wanted = self._foundation, self._endpoint
        hardware = ml_instance(wanted.instance_type)
        name = names.endpoint_name(self._settings.deployment.name, WORKLOAD, wanted.instance_type)
        # Another type is another endpoint, which needs resources of its own beside the old one's.
        inner = Construct(self, "Endpoint" + wanted.instance_type.removeprefix("ml.").replace(".", "").capitalize())
        return SageMakerEndpoint(
            inner,
            "Sentiment",
            endpoint_name=name,
            model=ModelSource(
                image_uri=image.result.image_uri,
                repository=foundation.repositories[REPOSITORY],
                bucket=foundation.bucket,
                prefix=PACKAGE_PREFIX,
                path=f"{package.prefix}{ARCHIVE}",
                environment=container_environment(wanted, vcpus=hardware.vcpus),
            ),
            fleet=Fleet(
                instance_type=wanted.instance_type,
                minimum=wanted.min_instances,
                initial=wanted.initial_instances,
                maximum=wanted.max_instances,
                invocations_per_instance=wanted.invocations_per_instance,
                scale_in_cooldown_seconds=wanted.scale_in_cooldown_seconds,
                scale_out_cooldown_seconds=wanted.scale_out_cooldown_seconds,
                health_check_timeout_seconds=wanted.health_check_timeout_seconds,
                model_download_timeout_seconds=wanted.model_download_timeout_seconds,
                volume_key=foundation.key if wanted.kms and not hardware.local_nvme else None,
            ),
            vpc_subnets=foundation.network.subnets,
            security_group=foundation.endpoint_security_groups[WORKLOAD],
            key=foundation.key,
            log_group=self._build_log_group(inner, name),
            latency_p99_ms=wanted.latency_p99_ms_alarm,
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
            after=[image.job.done, package_job.done],
        )

    def _build_log_group(self, scope: Construct, endpoint_name: str) -> logs.LogGroup:
        """SageMaker's own name for it. It goes with the endpoint: one that stayed would be in the way later."""
        return logs.LogGroup(
            scope,
            "Logs",
            log_group_name=names.log_group_of_endpoint(endpoint_name),
            retention=self.log_retention,
            encryption_key=self._foundation.key,
            removal_policy=RemovalPolicy.DESTROY,
        )


def container_environment(settings: SentimentEndpoint, *, vcpus: int) -> dict[str, str]:
    """Variables of the serving container: workers times threads make the instance's vCPUs, never more.

    :param vcpus: of the instance type
    """
    return {
        "OMP_NUM_THREADS": str(max(1, vcpus // settings.workers)),
        "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
        "SAGEMAKER_MODEL_SERVER_WORKERS": str(settings.workers),
        "SAGEMAKER_PROGRAM": "inference.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
        "TORCHLIFT_MAX_TEXTS": str(settings.max_batch_texts),
    }
