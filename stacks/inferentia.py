"""Inferentia: question answering on a fleet of Inf2 instances."""

from __future__ import annotations

from aws_cdk import CfnOutput
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from model_code.serving.neuron_cores import INF2_CORES_PER_DEVICE
from settings import Settings, inferentia, names
from settings.images import base_image
from settings.question_answering_models import MOST_WAIT_MS, QuestionAnswering
from stacks import bundles
from stacks.deployment_stack import DeploymentStack
from stacks.foundation import Foundation
from stacks.images import OwnImage, build_image
from stacks.question_answering_models import TRACED_PREFIX, WORKLOAD, Made, as_input, list_models, trace_model
from torchlift.fleet_dashboard import FleetDashboard
from torchlift.fleet_group import FleetSize
from torchlift.inferentia_fleet import HostImages, InferentiaFleet
from torchlift.job_services import JobServices
from torchlift.launch_template import Machine
from torchlift.source_bundle import SourceBundle

BASE = "pytorch-inference-neuronx"
JOBS = (*(name for name in names.JOBS if name.startswith(WORKLOAD)), "nginx-image", "neuron-monitor-image")


class Inferentia(DeploymentStack):
    """Images, traced model, list of models and the fleet."""

    def __init__(
        self, scope: Construct, *, settings: Settings, question_answering: QuestionAnswering, foundation: Foundation
    ) -> None:
        """Declare the jobs and the fleet."""
        super().__init__(
            scope, "Inferentia", settings=settings, description="question answering on Inferentia2", workload=WORKLOAD
        )
        self._settings = settings
        self._wanted = question_answering
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
        trace_image = self._build_image(
            "TraceImage", "question-answering-trace-image", "question-answering-trace", modules=bundles.TRACING
        )
        traced = trace_model(
            self,
            settings=question_answering,
            foundation=foundation,
            services=self._services,
            image=trace_image,
            base=base_image(BASE),
        )
        models = list_models(
            self, settings=question_answering, foundation=foundation, services=self._services, traced=traced
        )
        serving = self._build_image(
            "ServingImage",
            "question-answering-image",
            "question-answering-serving",
            modules=bundles.SERVING,
            traced=traced,
        )
        nginx = self._build_image("NginxImage", "nginx-image", "nginx")
        monitor = self._build_image(
            "MonitorImage", "neuron-monitor-image", "neuron-monitor", modules=bundles.NEURON_MONITOR
        )
        self.fleet = self._build_fleet(serving=serving, nginx=nginx, monitor=monitor, models=models)
        self._build_parameters(models)
        self._build_dashboard()

    def _build_image(
        self, id: str, job: str, repository: str, *, modules: tuple[str, ...] = (), traced: Made | None = None
    ) -> OwnImage:
        """All of one base: a host pulls its layers once."""
        return build_image(
            self,
            id=id,
            foundation=self._foundation,
            services=self._services,
            job=job,
            repository=repository,
            base=base_image(BASE),
            region=self._settings.deployment.region,
            modules=modules,
            inputs=[as_input(traced)] if traced else [],
            environment={"TORCHLIFT_TRACE_HASH": traced.hash} if traced else None,
            after=[traced.done] if traced else [],
            # The Neuron image needs more disk than a small builder has.
            compute_type="BUILD_GENERAL1_LARGE",
        )

    def _build_fleet(self, *, serving: OwnImage, nginx: OwnImage, monitor: OwnImage, models: Made) -> InferentiaFleet:
        foundation, wanted, deployment = self._foundation, self._wanted, self._settings.deployment
        network = foundation.network
        return InferentiaFleet(
            self,
            "Fleet",
            deployment=deployment.name,
            workload=WORKLOAD,
            job=names.QUESTION_ANSWERING_FLEET,
            size=FleetSize(
                minimum=wanted.min_instances,
                maximum=wanted.max_instances,
                requests_per_instance=wanted.requests_per_instance,
                cpu_target_percent=wanted.cpu_utilization_target_percent,
                warm_up_seconds=wanted.warm_up_seconds,
            ),
            machine=Machine(
                instance_type=wanted.instance_type,
                root_volume_gib=wanted.root_volume_gib,
                ami_id=wanted.ami_id,
                ami_parameter=wanted.ami_parameter,
                purchase=wanted.purchase,
            ),
            cores=len(inferentia.served_cores(wanted.instance_type, wanted.num_cores)),
            cores_per_device=INF2_CORES_PER_DEVICE,
            core_memory_mib=inferentia.DEVICE_MIB // INF2_CORES_PER_DEVICE,
            images=HostImages(serving=serving.result, nginx=nginx.result, monitor=monitor.result),
            source=SourceBundle(
                self,
                "HostSource",
                paths=[bundles.SCRIPTS, bundles.FLEET_HOST],
                exclude=bundles.ONLY_FOR_IMAGES,
            ),
            models=(foundation.bucket, names.fleet_models_key(WORKLOAD, models.hash)),
            readable=[TRACED_PREFIX],
            server=server_environment(wanted),
            token_secret_arn=wanted.token_secret_arn,
            vpc=network.vpc,
            cidr=network.cidr,
            subnets=network.subnets_in(wanted.zones or network.zones),
            balancer_subnets=network.subnets,
            certificate_arn=wanted.certificate_arn,
            latency_p99_ms=wanted.latency_p99_ms_alarm,
            server_error_percent=wanted.server_error_percent_alarm,
            log_group=self.job_logs(names.QUESTION_ANSWERING_FLEET),
            alarm_topic_arn=foundation.alarm_topic.topic_arn,
            key=foundation.key,
            after=[models.done, *(one.job.done for one in (serving, nginx, monitor))],
        )

    def _build_parameters(self, models: Made) -> None:
        """What clients and operators look up. It moves only when the fleet has answered."""
        for kind, text, value in (
            ("url", "The question-answering fleet: clients read its address here", self.fleet.balancer.url),
            ("models", "The list of models that its servers follow", f"{models.result.uri}models.json"),
        ):
            parameter = ssm.StringParameter(
                self,
                f"{kind.capitalize()}Parameter",
                parameter_name=names.parameter_name(self._settings.deployment.name, WORKLOAD, kind),
                description=text,
                string_value=value,
            )
            parameter.node.add_dependency(self.fleet.group)
        CfnOutput(self, names.OUTPUT_QUESTION_ANSWERING_URL, value=self.fleet.balancer.url)

    def _build_dashboard(self) -> None:
        deployment = self._settings.deployment.name
        parameter = names.parameter_name(deployment, WORKLOAD, "url")
        groups = [names.log_group_of_job(deployment, job) for job in JOBS]
        made = FleetDashboard(
            self,
            "Dashboard",
            name=names.dashboard_name(deployment, WORKLOAD),
            title=f"Torchlift {deployment}: {WORKLOAD}",
            fleet=self.fleet.watched,
            alarms=self.fleet.alarms,
            log_groups=groups,
            links=[
                f"Clients read the address from the SSM parameter `{parameter}`",
                f"What to do: `docs/runbooks.md` · `torchlift status {deployment}` · `aws logs tail --follow "
                f"{names.log_group_of_job(deployment, names.QUESTION_ANSWERING_FLEET)}`",
            ],
        )
        CfnOutput(self, names.OUTPUT_QUESTION_ANSWERING_DASHBOARD, value=made.url)


def server_environment(wanted: QuestionAnswering) -> dict[str, str]:
    """The servers' settings, as model_code/serving/settings.py reads them."""
    return {
        "TORCHLIFT_QUEUE_ROWS": str(wanted.queue_rows),
        "TORCHLIFT_BATCH_WAIT_MS": f"{wanted.batch_wait_ms:g}",
        "TORCHLIFT_TIMEOUT_MS": str(wanted.timeout_ms),
        "TORCHLIFT_MAX_TIMEOUT_MS": str(MOST_WAIT_MS),
        "TORCHLIFT_MAX_BODY_BYTES": str(wanted.max_body_bytes),
        "TORCHLIFT_TOKENIZER_THREADS": str(inferentia.tokenizer_threads(wanted.instance_type, wanted.num_cores)),
    }
