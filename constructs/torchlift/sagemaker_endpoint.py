"""SageMakerEndpoint: model, configuration and an autoscaled endpoint that replaces itself without a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from torchlift import permissions
from torchlift.endpoint_alarms import EndpointAlarms
from torchlift.endpoint_scaling import EndpointScaling
from torchlift.execution_role import ExecutionRole

# The same in every configuration: updates with guardrails must find the old variant under its name.
VARIANT = "AllTraffic"
BAKE_SECONDS = 300
"""How long old and new fleet stand side by side while the alarms watch the new one."""
LONGEST_UPDATE_SECONDS = 3600


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """What a container runs: an image of ours by its tag, and the archive that it serves.

    :param path: the archive's key in `bucket`; it lies below `prefix`, which ends in a slash
    """

    image_uri: str
    repository: ecr.IRepository
    bucket: s3.IBucket
    prefix: str
    path: str
    environment: Mapping[str, str]

    @property
    def url(self) -> str:
        """The archive's URL, as SageMaker reads it."""
        return f"s3://{self.bucket.bucket_name}/{self.path}"


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Which instances, how many, and when it gets more or fewer of them.

    :param invocations_per_instance: per minute
    :param volume_key: encrypts the storage volume; None for types whose local disks encrypt in hardware, where
        SageMaker refuses a key
    """

    instance_type: str
    minimum: int
    initial: int
    maximum: int
    invocations_per_instance: float
    scale_in_cooldown_seconds: int
    scale_out_cooldown_seconds: int
    health_check_timeout_seconds: int
    model_download_timeout_seconds: int
    volume_key: kms.IKey | None

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.initial <= self.maximum:
            raise ValueError(
                f"1 <= minimum ({self.minimum}) <= initial ({self.initial}) <= maximum ({self.maximum}) must hold"
            )


class SageMakerEndpoint(Construct):
    """One model behind one variant.

    The endpoint's name is fixed and carries the instance type: rollback alarms must exist before it and name it, and
    SageMaker refuses to change the type of an autoscaled variant, so a type change makes a new endpoint. Model and
    configuration have generated names, so that a change of either makes a new one and an update that finds it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint_name: str,
        model: ModelSource,
        fleet: Fleet,
        vpc_subnets: Sequence[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
        key: kms.IKey,
        log_group: logs.LogGroup,
        latency_p99_ms: int,
        alarm_topic_arn: str,
        after: Sequence[IDependable] = (),
    ) -> None:
        """Declare role, model, configuration, endpoint, scaling and alarms.

        :param log_group: declared under SageMaker's own name for this endpoint: SageMaker would make it otherwise
        :param after: what must exist before the model: the jobs that make image and archive
        """
        super().__init__(scope, id)
        alarms = EndpointAlarms(
            self,
            "Alarms",
            endpoint_name=endpoint_name,
            variant_name=VARIANT,
            latency_p99_ms=latency_p99_ms,
            topic_arn=alarm_topic_arn,
        )
        access = ExecutionRole(
            self,
            "Execution",
            model_bucket=model.bucket,
            model_prefix=model.prefix,
            key=key,
            repository=model.repository,
            log_group=log_group,
            subnets=vpc_subnets,
            security_group=security_group,
            alarm_names=alarms.names,
            volume_key=fleet.volume_key,
        )
        self.role: iam.Role = access.role
        self.model = self._build_model(model, vpc_subnets, security_group)
        # A role without its policy cannot read the archive yet: the first deploy would fail, the second work.
        self.model.node.add_dependency(access, log_group, *after)
        self.config = self._build_config(fleet)
        self.endpoint = self._build_endpoint(endpoint_name, alarms.names)
        self.endpoint.node.add_dependency(access, log_group, alarms)
        scaling = EndpointScaling(
            self,
            "Scaling",
            endpoint_name=endpoint_name,
            variant_name=VARIANT,
            minimum=fleet.minimum,
            maximum=fleet.maximum,
            invocations_per_instance=fleet.invocations_per_instance,
            scale_in_cooldown_seconds=fleet.scale_in_cooldown_seconds,
            scale_out_cooldown_seconds=fleet.scale_out_cooldown_seconds,
        )
        scaling.node.add_dependency(self.endpoint)

    @property
    def name(self) -> str:
        """The endpoint's name, known once it is in service."""
        return self.endpoint.attr_endpoint_name

    def grant_invoke(self, grantee: iam.IGrantable) -> None:
        """Allow invoking this endpoint."""
        permissions.allow(grantee, actions=["sagemaker:InvokeEndpoint"], resources=[self.endpoint.ref])

    def _build_model(
        self, source: ModelSource, subnets: Sequence[ec2.ISubnet], security_group: ec2.ISecurityGroup
    ) -> sagemaker.CfnModel:
        model = sagemaker.CfnModel
        return model(
            self,
            "Model",
            execution_role_arn=self.role.role_arn,
            enable_network_isolation=True,
            vpc_config=model.VpcConfigProperty(
                subnets=[subnet.subnet_id for subnet in subnets],
                security_group_ids=[security_group.security_group_id],
            ),
            primary_container=model.ContainerDefinitionProperty(
                image=source.image_uri, model_data_url=source.url, environment=dict(source.environment)
            ),
        )

    def _build_config(self, fleet: Fleet) -> sagemaker.CfnEndpointConfig:
        config = sagemaker.CfnEndpointConfig
        made = config(
            self,
            "Config",
            kms_key_id=fleet.volume_key.key_arn if fleet.volume_key else None,
            production_variants=[
                config.ProductionVariantProperty(
                    variant_name=VARIANT,
                    model_name=self.model.attr_model_name,
                    instance_type=fleet.instance_type,
                    initial_instance_count=fleet.initial,
                    initial_variant_weight=1,
                    container_startup_health_check_timeout_in_seconds=fleet.health_check_timeout_seconds,
                    model_data_download_timeout_in_seconds=fleet.model_download_timeout_seconds,
                )
            ],
        )
        if fleet.volume_key is None:
            Validations.of(made).acknowledge(
                Acknowledgment(
                    id="NIST.800.53.R5::NIST.800.53.R5-SageMakerEndpointConfigurationKMSKeyConfigured",
                    reason="The settings ask for none, which types with local disks require: these encrypt in "
                    "hardware, and SageMaker refuses a key for them",
                )
            )
        return made

    def _build_endpoint(self, name: str, alarm_names: Sequence[str]) -> sagemaker.CfnEndpoint:
        endpoint = sagemaker.CfnEndpoint
        return endpoint(
            self,
            "Endpoint",
            endpoint_name=name,
            endpoint_config_name=self.config.attr_endpoint_config_name,
            # Without it each update shrinks a scaled-out fleet. What it would also keep, and thereby hide changes of,
            # is taken out again.
            retain_all_variant_properties=True,
            exclude_retained_variant_properties=[
                endpoint.VariantPropertyProperty(variant_property_type=kind)
                for kind in ("DesiredWeight", "DataCaptureConfig")
            ],
            deployment_config=endpoint.DeploymentConfigProperty(
                auto_rollback_configuration=endpoint.AutoRollbackConfigProperty(
                    alarms=[endpoint.AlarmProperty(alarm_name=item) for item in alarm_names]
                ),
                blue_green_update_policy=endpoint.BlueGreenUpdatePolicyProperty(
                    maximum_execution_timeout_in_seconds=LONGEST_UPDATE_SECONDS,
                    termination_wait_in_seconds=0,
                    # A canary is half the fleet at most, so one instance can have none.
                    traffic_routing_configuration=endpoint.TrafficRoutingConfigProperty(
                        type="ALL_AT_ONCE", wait_interval_in_seconds=BAKE_SECONDS
                    ),
                ),
            ),
        )
