"""Graviton: from weights to an endpoint on Arm."""

from __future__ import annotations

from dataclasses import replace

from aws_cdk import CfnOutput
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from settings import Settings, names
from settings.hardware import ml_instance
from settings.images import base_image
from settings.models import Sentiment
from stacks import bundles
from stacks.deployment_stack import DeploymentStack, pascal
from stacks.endpoints import build_log_group, update_policy
from stacks.foundation import Foundation
from stacks.images import OwnImage, build_image
from stacks.serving_environment import container_environment
from stacks.training import Training
from stacks.weights import Weights
from stacks.workload_dashboard import build_dashboard
from torchlift.build_job import BuildJob
from torchlift.content_hash import job_hash
from torchlift.endpoint_variants import Capture, Fleet, ServingImage, Variant
from torchlift.job_data import JobResult
from torchlift.job_services import JobServices
from torchlift.sagemaker_endpoint import SageMakerEndpoint
from torchlift.source_bundle import SourceBundle
from torchlift.verify_endpoint import VerifyEndpoint

WORKLOAD = "sentiment"
REPOSITORY = "sentiment-serving"
PACKAGE_PREFIX = "packages/sentiment/"
ARCHIVE = "model.tar.gz"
PROBE = "probe.json"


class Graviton(DeploymentStack):
    """Serving image, packages and endpoint of the sentiment model."""

    def __init__(
        self,
        scope: Construct,
        *,
        settings: Settings,
        sentiment: Sentiment,
        foundation: Foundation,
        training: Training,
    ) -> None:
        """Declare the jobs and the endpoint."""
        super().__init__(
            scope, "Graviton", settings=settings, description="sentiment endpoint on Graviton", workload=WORKLOAD
        )
        self._settings = settings
        self._endpoint = sentiment.endpoint
        self._foundation = foundation
        self._services = JobServices(
            self,
            "Jobs",
            deployment=settings.deployment.name,
            workload=WORKLOAD,
            log_retention=self.log_retention,
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
            key=foundation.key,
        )
        # The weights' address is known at synth, so nothing else tells CloudFormation that they must be there first.
        self.add_stack_dependency(training)
        image = self._build_image()
        self._package_source = SourceBundle(
            self, "PackageSource", paths=[bundles.SCRIPTS, *bundles.PACKAGING], exclude=bundles.ONLY_FOR_IMAGES
        )
        self._packages: dict[str, tuple[JobResult, BuildJob]] = {}
        self.endpoint, verified = self._build_endpoint(image, self._build_variants(sentiment, training))
        parameter = ssm.StringParameter(
            self,
            "EndpointParameter",
            parameter_name=names.parameter_name(settings.deployment.name, WORKLOAD, "endpoint"),
            description="The sentiment endpoint: clients read its name here",
            string_value=self.endpoint.name,
        )
        # Clients move to another endpoint only when it has answered right.
        parameter.node.add_dependency(verified)
        CfnOutput(self, names.OUTPUT_SENTIMENT_ENDPOINT, value=self.endpoint.name)
        trains = settings.training is not None and settings.training.mode != "skip"
        build_dashboard(
            self,
            settings=settings,
            workload=WORKLOAD,
            endpoint=self.endpoint,
            jobs=("sentiment-train", "sentiment-package", "serving-image", "sentiment-image"),
            output=names.OUTPUT_SENTIMENT_DASHBOARD,
            training_job="sentiment-train" if trains else None,
        )

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

    def _build_variants(self, sentiment: Sentiment, training: Training) -> list[Variant]:
        """The main variant, and the challengers, each with the package of its version."""
        wanted, foundation = sentiment.endpoint, self._foundation

        def published(version: str) -> Weights:
            return Weights.published(version, bucket=foundation.bucket, key=foundation.key)

        fleet = Fleet(
            instance_type=wanted.instance_type,
            minimum=wanted.min_instances,
            initial=wanted.initial_instances,
            maximum=wanted.max_instances,
            invocations_per_instance=wanted.invocations_per_instance,
            cpu_target_percent=wanted.cpu_utilization_target_percent,
            scale_in_cooldown_seconds=wanted.scale_in_cooldown_seconds,
            scale_out_cooldown_seconds=wanted.scale_out_cooldown_seconds,
            health_check_timeout_seconds=wanted.health_check_timeout_seconds,
            model_download_timeout_seconds=wanted.model_download_timeout_seconds,
        )
        main = published(sentiment.version) if sentiment.version else training.weights
        return [
            self._variant(names.MAIN_VARIANT, main, wanted.weight, fleet),
            *(
                self._variant(
                    one.name,
                    published(one.version),
                    one.weight,
                    replace(
                        fleet,
                        instance_type=one.instance_type or wanted.instance_type,
                        minimum=one.min_instances,
                        initial=one.initial_instances,
                        maximum=one.max_instances,
                    ),
                )
                for one in wanted.challengers
            ),
        ]

    def _variant(self, name: str, weights: Weights, weight: float, fleet: Fleet) -> Variant:
        if weights.identity not in self._packages:
            id = f"Package{weights.identity}" if self._packages else "Package"
            self._packages[weights.identity] = self._build_package(id, weights)
        package, _ = self._packages[weights.identity]
        environment = container_environment(self._endpoint, vcpus=ml_instance(fleet.instance_type).vcpus)
        return Variant(
            name=name, path=f"{package.prefix}{ARCHIVE}", environment=environment, fleet=fleet, weight=weight
        )

    def _build_package(self, id: str, weights: Weights) -> tuple[JobResult, BuildJob]:
        source, foundation = self._package_source, self._foundation
        command = f"python3 -m model_code.sentiment.package --weights inputs/weights --output output/{ARCHIVE}"
        hash = job_hash(
            job="sentiment-package",
            bundle_hash=source.content_hash,
            parameters={"command": command, "weights": weights.identity},
        )
        result = JobResult.in_s3(bucket=foundation.bucket, prefix=f"{PACKAGE_PREFIX}{hash}/", key=foundation.key)
        job = BuildJob(
            self,
            id,
            services=self._services,
            job="sentiment-package",
            hash=hash,
            result=result,
            source=source,
            command=command,
            inputs=[weights.as_input(self, "Weights", name="weights")],
            architecture="arm64",
            log_group=self.job_logs("sentiment-package"),
            key=foundation.key,
        )
        return result, job

    def _build_endpoint(self, image: OwnImage, variants: list[Variant]) -> tuple[SageMakerEndpoint, VerifyEndpoint]:
        foundation, wanted = self._foundation, self._endpoint
        deployment = self._settings.deployment.name
        name = names.endpoint_name(deployment, WORKLOAD, wanted.instance_type, challengers=wanted.challenger_types)
        # Other variants or types are another endpoint, which needs resources of its own beside the old one's.
        inner = Construct(self, "Endpoint" + pascal(name.removeprefix(f"torchlift-{deployment}-{WORKLOAD}-")))
        endpoint = SageMakerEndpoint(
            inner,
            "Sentiment",
            endpoint_name=name,
            image=ServingImage(
                uri=image.result.image_uri,
                repository=foundation.repositories[REPOSITORY],
                bucket=foundation.bucket,
                prefix=PACKAGE_PREFIX,
            ),
            variants=variants,
            update=update_policy(wanted.update),
            vpc_subnets=foundation.network.subnets,
            security_group=foundation.endpoint_security_groups[WORKLOAD],
            key=foundation.key,
            volume_key=foundation.key if wanted.kms else None,
            log_group=build_log_group(inner, name, retention=self.log_retention, key=foundation.key),
            log_groups=names.log_group_of_endpoint(
                names.endpoint_prefix(self._settings.deployment.name, WORKLOAD) + "*"
            ),
            latency_p99_ms=wanted.latency_p99_ms_alarm,
            client_error_percent=wanted.client_error_percent_alarm,
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
            lasting=Construct(self, "Lasting"),
            log_retention=self.log_retention,
            capture=self._capture(),
            after=[image.job.done, *(job.done for _, job in self._packages.values())],
        )
        verified = VerifyEndpoint(
            inner,
            "Verify",
            endpoint=endpoint,
            probes={one.name: one.path.removesuffix(ARCHIVE) + PROBE for one in variants},
            bucket=foundation.bucket,
            prefix=PACKAGE_PREFIX,
            key=foundation.key,
            log_retention=self.log_retention,
        )
        return endpoint, verified

    def _capture(self) -> Capture | None:
        wanted, foundation = self._endpoint.data_capture, self._foundation
        if wanted is None:
            return None
        return Capture(
            bucket=foundation.bucket,
            prefix=names.captured_prefix(WORKLOAD),
            key=foundation.key,
            sampling_percent=wanted.sampling_percent,
        )
