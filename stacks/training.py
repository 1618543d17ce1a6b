"""Training: from base model and data to weights in S3."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_ssm as ssm
from constructs import Construct, IDependable

from settings import Settings, names
from settings.images import base_image
from settings.models import Training as TrainingSettings
from stacks import bundles
from stacks.deployment_stack import DeploymentStack
from stacks.foundation import Foundation
from stacks.images import OwnImage, build_image
from stacks.job_inputs import BASE_MODEL, DATA, JobInputs, job_inputs
from stacks.training_command import training_command
from stacks.weights import WEIGHTS_PREFIX, Weights
from torchlift.content_hash import job_hash
from torchlift.instance_job import InstanceJob
from torchlift.interactive_instance import InteractiveInstance
from torchlift.job_data import JobResult
from torchlift.job_services import JobServices
from torchlift.launch_template import Machine
from torchlift.source_bundle import SourceBundle

WORKLOAD = "sentiment"
REPOSITORY = "sentiment-training"


class Training(DeploymentStack):
    """Mirror, image and training job; or a reference to weights that are there already."""

    def __init__(self, scope: Construct, *, settings: Settings, training: TrainingSettings, foundation: Foundation):
        """Declare what the mode asks for; :attr:`weights` is what serving takes."""
        super().__init__(
            scope, "Training", settings=settings, description="fine-tuning of the sentiment model", workload=WORKLOAD
        )
        self._settings = settings
        self._training = training
        self._foundation = foundation
        self.weights: Weights
        trained: IDependable | None = None
        if training.mode == "skip":
            self.weights = self._existing_weights()
            self.add_stack_dependency(foundation)
        else:
            self.weights, trained = self._build_training()
        parameter = ssm.StringParameter(
            self,
            "WeightsParameter",
            parameter_name=names.parameter_name(settings.deployment.name, WORKLOAD, "model"),
            description="Weights of the sentiment model",
            string_value=self.weights.uri,
        )
        if trained is not None:
            # Who reads the parameter must find the weights in place.
            parameter.node.add_dependency(trained)
        CfnOutput(self, names.OUTPUT_WEIGHTS, value=self.weights.uri)

    def _existing_weights(self) -> Weights:
        foundation, uri, sentiment = self._foundation, self._training.weights_uri, self._settings.sentiment
        if uri is not None:
            return Weights.given(uri=uri, bucket=foundation.bucket, key=foundation.key)
        assert sentiment is not None and sentiment.version is not None
        return Weights.published(sentiment.version, bucket=foundation.bucket, key=foundation.key)

    def _build_training(self) -> tuple[Weights, IDependable]:
        foundation, training = self._foundation, self._training
        services = JobServices(
            self,
            "Jobs",
            deployment=self._settings.deployment.name,
            workload=WORKLOAD,
            log_retention=self.log_retention,
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
            key=foundation.key,
        )
        inputs = job_inputs(
            self,
            sources={BASE_MODEL: training.base_model_source, DATA: training.data_source},
            services=services,
            bucket=foundation.bucket,
            key=foundation.key,
            log_group=self.job_logs("hub-mirror"),
            section="training",
        )
        image = self._build_image(services)
        weights, job = self._build_job(services, inputs, image)
        if training.mode == "interactive":
            self._build_box(inputs, image, job)
        return weights, job.done

    def _build_image(self, services: JobServices) -> OwnImage:
        return build_image(
            self,
            foundation=self._foundation,
            services=services,
            job="sentiment-image",
            repository=REPOSITORY,
            base=base_image("pytorch-training"),
            region=self._settings.deployment.region,
            modules=bundles.TRAINING,
            # The image with CUDA needs more disk than a small builder has.
            compute_type="BUILD_GENERAL1_LARGE",
        )

    def _build_job(self, services: JobServices, inputs: JobInputs, image: OwnImage) -> tuple[Weights, InstanceJob]:
        foundation, training = self._foundation, self._training
        source = SourceBundle(
            self,
            "TrainingSource",
            paths=[bundles.SCRIPTS, bundles.HOST, *bundles.TRAINING],
            exclude=bundles.ONLY_FOR_IMAGES,
        )
        command = training_command(training, inputs.folders)
        hash = job_hash(
            job="sentiment-train",
            bundle_hash=source.content_hash,
            parameters={"command": command, "inputs": inputs.identity},
            image=image.hash,
        )
        result = JobResult.in_s3(bucket=foundation.bucket, prefix=f"{WEIGHTS_PREFIX}{hash}/", key=foundation.key)
        job = InstanceJob(
            self,
            "Train",
            services=services,
            job="sentiment-train",
            hash=hash,
            result=result,
            source=source,
            image_uri=image.result.image_uri,
            image_repository=foundation.repositories[REPOSITORY],
            command=command,
            inputs=inputs.inputs,
            checkpoint_bucket=foundation.bucket,
            vpc=foundation.network.vpc,
            subnets=foundation.network.subnets_in(training.zones or foundation.network.zones),
            machine=self._machine(),
            deadline=Duration.minutes(training.deadline_minutes),
            log_group=self.job_logs("sentiment-train"),
            key=foundation.key,
            # For the record that the training writes; they change nothing in it.
            environment=self._origins(inputs),
            after=[*inputs.after, image.job.done],
        )
        weights = Weights.published(hash, bucket=foundation.bucket, key=foundation.key)
        return weights, job

    def _build_box(self, inputs: JobInputs, image: OwnImage, job: InstanceJob) -> None:
        foundation, training = self._foundation, self._training
        subnets = foundation.network.subnets_in(training.zones or foundation.network.zones)
        box = InteractiveInstance(
            self,
            "Box",
            deployment=self._settings.deployment.name,
            workload=WORKLOAD,
            vpc=foundation.network.vpc,
            subnet=subnets[0],
            machine=self._machine(),
            parameter_name=names.parameter_name(self._settings.deployment.name, WORKLOAD, "box"),
            source=SourceBundle(
                self,
                "BoxSource",
                paths=[bundles.SCRIPTS, bundles.BOX, *bundles.TRAINING],
                exclude=bundles.ONLY_FOR_IMAGES,
            ),
            image_uri=image.result.image_uri,
            command=training_command(training, inputs.folders),
            results=foundation.bucket,
            environment=self._origins(inputs),
            log_group=self.job_logs("sentiment-train"),
            inputs=inputs.inputs,
            image_repository=foundation.repositories[REPOSITORY],
            key=foundation.key,
            idle_stop_minutes=training.idle_stop_minutes,
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
        )
        # One after the other: both at once need twice the vCPU quota.
        box.node.add_dependency(job.done)
        CfnOutput(self, names.OUTPUT_INTERACTIVE_INSTANCE, value=box.instance.ref)

    @staticmethod
    def _origins(inputs: JobInputs) -> dict[str, str]:
        return {f"TORCHLIFT_{name.upper()}": text for name, text in inputs.origins.items()}

    def _machine(self) -> Machine:
        training = self._training
        return Machine(
            instance_type=training.instance_type,
            root_volume_gib=training.root_volume_gib,
            ami_id=training.ami_id,
            ami_parameter=training.ami_parameter,
            purchase=training.purchase,
            capacity_reservation_id=training.capacity_reservation_id,
        )
