"""MultiModel: from a text encoder to many models of it behind one GPU endpoint."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_ssm as ssm
from constructs import Construct, IDependable

from settings import Settings, names
from settings.text_encoding_models import TextEncoding
from settings.triton import triton_release
from stacks import bundles
from stacks.deployment_stack import DeploymentStack, pascal
from stacks.endpoints import build_log_group, update_policy
from stacks.foundation import Foundation
from stacks.images import OwnImage, build_image
from stacks.job_inputs import BASE_MODEL, job_inputs
from stacks.text_encoding_command import build_command
from stacks.workload_dashboard import build_dashboard
from torchlift.content_hash import job_hash
from torchlift.endpoint_variants import Fleet, ManyModels, ServingImage
from torchlift.instance_job import InstanceJob
from torchlift.job_data import JobResult
from torchlift.job_services import JobServices
from torchlift.launch_template import Machine
from torchlift.multi_model_endpoint import MultiModelEndpoint
from torchlift.source_bundle import SourceBundle
from torchlift.verify_endpoint import VerifyEndpoint

WORKLOAD = "text-encoding"
TRITON, BUILDER = "triton", "tensorrt-builder"
ENGINE_PREFIX = f"engines/{WORKLOAD}/"
MODELS_PREFIX = f"models/{WORKLOAD}/"
TEXTS = "calibration_texts"
JOBS = ("text-encoding-engine", "text-encoding-image", "triton-image")


class MultiModel(DeploymentStack):
    """Images, engine, archives and endpoint of the text encoder.

    The engine's job publishes to `engines/text-encoding/<hash>/`, which its manifest describes for ever. The archives
    go to `models/text-encoding/<hash>/` as well, which the endpoint reads and operators add to: each build has such a
    prefix of its own, so that no endpoint ever meets engines of two TensorRT versions.
    """

    def __init__(
        self, scope: Construct, *, settings: Settings, text_encoding: TextEncoding, foundation: Foundation
    ) -> None:
        """Declare the jobs and the endpoint."""
        super().__init__(scope, "MultiModel", settings=settings, description="text encoding on GPUs", workload=WORKLOAD)
        self._settings = settings
        self._wanted = text_encoding
        self._foundation = foundation
        deployment = settings.deployment.name
        self._services = JobServices(
            self,
            "Jobs",
            deployment=deployment,
            workload=WORKLOAD,
            log_retention=self.log_retention,
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
            key=foundation.key,
        )
        triton = self._build_triton()
        hash, built = self._build_engine(self._build_builder(triton))
        self.endpoint, verified = self._build_endpoint(triton, hash, after=[triton.job.done, built])
        self._parameter("Endpoint", self.endpoint.name, after=verified)
        if text_encoding.mode == "multi-model":
            models = f"s3://{foundation.bucket.bucket_name}/{MODELS_PREFIX}{hash}/"
            self._parameter("Models", models, after=verified)
        CfnOutput(self, names.OUTPUT_TEXT_ENCODING_ENDPOINT, value=self.endpoint.name)
        build_dashboard(
            self,
            settings=settings,
            workload=WORKLOAD,
            endpoint=self.endpoint,
            jobs=JOBS,
            output=names.OUTPUT_TEXT_ENCODING_DASHBOARD,
        )

    def _build_triton(self) -> OwnImage:
        """A copy in our registry: its tag cannot move under an engine, and it is scanned as all our images are."""
        return build_image(
            self,
            id="Triton",
            foundation=self._foundation,
            services=self._services,
            job="triton-image",
            repository=TRITON,
            base=triton_release(self._wanted.triton_release).image,
            region=self._settings.deployment.region,
            compute_type="BUILD_GENERAL1_LARGE",
        )

    def _build_builder(self, triton: OwnImage) -> OwnImage:
        """On top of the image that serves: the engine's TensorRT is the server's, whatever the release brings."""
        return build_image(
            self,
            id="Builder",
            foundation=self._foundation,
            services=self._services,
            job="text-encoding-image",
            repository=BUILDER,
            base=triton,
            region=self._settings.deployment.region,
            modules=bundles.ENCODING,
            compute_type="BUILD_GENERAL1_LARGE",
        )

    def _build_engine(self, builder: OwnImage) -> tuple[str, IDependable]:
        foundation, wanted = self._foundation, self._wanted
        sources = {BASE_MODEL: wanted.base_model_source}
        if wanted.texts_source is not None:
            sources[TEXTS] = wanted.texts_source
        inputs = job_inputs(
            self,
            sources=sources,
            services=self._services,
            bucket=foundation.bucket,
            key=foundation.key,
            log_group=self.job_logs("hub-mirror"),
            section="text_encoding",
        )
        source = SourceBundle(
            self,
            "EngineSource",
            paths=[bundles.SCRIPTS, bundles.HOST, *bundles.ENCODING],
            exclude=bundles.ONLY_FOR_IMAGES,
        )
        command = build_command(wanted, inputs.folders)
        hash = job_hash(
            job="text-encoding-engine",
            bundle_hash=source.content_hash,
            # The GPU is the machine's, and the engine runs on no other.
            parameters={"command": command, "inputs": inputs.identity, "machine": wanted.build_instance_type},
            image=builder.hash,
        )
        job = InstanceJob(
            self,
            "Engine",
            services=self._services,
            job="text-encoding-engine",
            hash=hash,
            result=JobResult.in_s3(
                bucket=foundation.bucket,
                prefix=f"{ENGINE_PREFIX}{hash}/",
                key=foundation.key,
                copies={"archives/": f"{MODELS_PREFIX}{hash}/"},
            ),
            source=source,
            image_uri=builder.result.image_uri,
            image_repository=builder.repository,
            command=command,
            inputs=inputs.inputs,
            checkpoint_bucket=foundation.bucket,
            vpc=foundation.network.vpc,
            subnets=foundation.network.subnets_in(wanted.zones or foundation.network.zones),
            machine=Machine(
                instance_type=wanted.build_instance_type,
                root_volume_gib=wanted.root_volume_gib,
                ami_id=wanted.ami_id,
                ami_parameter=wanted.ami_parameter,
                purchase=wanted.purchase,
            ),
            deadline=Duration.minutes(wanted.deadline_minutes),
            log_group=self.job_logs("text-encoding-engine"),
            key=foundation.key,
            after=[*inputs.after, builder.job.done],
        )
        return hash, job.done

    def _build_endpoint(
        self, triton: OwnImage, hash: str, *, after: list[IDependable]
    ) -> tuple[MultiModelEndpoint, VerifyEndpoint]:
        foundation, wanted = self._foundation, self._wanted.endpoint
        deployment = self._settings.deployment.name
        name = names.endpoint_name(deployment, WORKLOAD, wanted.instance_type)
        many = self._wanted.mode == "multi-model"
        archive = f"{self._wanted.model_names[0]}.tar.gz"
        models = f"{MODELS_PREFIX}{hash}/{'' if many else archive}"
        # Another type is another endpoint, which needs resources of its own beside the old one's.
        inner = Construct(self, "Endpoint" + pascal(name.removeprefix(f"torchlift-{deployment}-{WORKLOAD}-")))
        endpoint = MultiModelEndpoint(
            inner,
            "Encoder",
            variant=names.MAIN_VARIANT,
            models=models,
            fleet=self._fleet(),
            many=ManyModels(
                caching=wanted.model_caching,
                loading_wait_ms=wanted.loading_wait_ms_alarm,
                cache_hit_percent=wanted.cache_hit_percent_alarm,
            )
            if many
            else None,
            log_verbose=wanted.log_verbose,
            shared_memory_mib=wanted.shared_memory_mib,
            endpoint_name=name,
            image=ServingImage(
                uri=triton.result.image_uri,
                repository=triton.repository,
                bucket=foundation.bucket,
                prefix=MODELS_PREFIX,
            ),
            update=update_policy(wanted.update),
            vpc_subnets=foundation.network.subnets,
            security_group=foundation.endpoint_security_groups[WORKLOAD],
            key=foundation.key,
            log_group=build_log_group(inner, name, retention=self.log_retention, key=foundation.key),
            log_groups=names.log_group_of_endpoint(names.endpoint_prefix(deployment, WORKLOAD) + "*"),
            latency_p99_ms=wanted.latency_p99_ms_alarm,
            client_error_percent=wanted.client_error_percent_alarm,
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
            lasting=Construct(self, "Lasting"),
            log_retention=self.log_retention,
            after=after,
        )
        verified = VerifyEndpoint(
            inner,
            "Verify",
            endpoint=endpoint,
            probes={names.MAIN_VARIANT: f"{ENGINE_PREFIX}{hash}/probe.json"},
            bucket=foundation.bucket,
            prefix=ENGINE_PREFIX,
            key=foundation.key,
            log_retention=self.log_retention,
            target_model=archive if many else None,
        )
        return endpoint, verified

    def _fleet(self) -> Fleet:
        wanted = self._wanted.endpoint
        return Fleet(
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
            gpu_target_percent=wanted.gpu_utilization_target_percent,
            concurrent_requests=wanted.high_resolution_concurrency,
            ami_version=triton_release(self._wanted.triton_release).ami_version,
        )

    def _parameter(self, kind: str, value: str, *, after: IDependable) -> None:
        """Clients and operators go to another endpoint only when it has answered right."""
        parameter = ssm.StringParameter(
            self,
            f"{kind}Parameter",
            parameter_name=names.parameter_name(self._settings.deployment.name, WORKLOAD, kind.lower()),
            description=f"The text encoding {kind.lower()}: clients read it here",
            string_value=value,
        )
        parameter.node.add_dependency(after)
