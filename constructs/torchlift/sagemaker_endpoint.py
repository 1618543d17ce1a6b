"""SageMakerEndpoint: models, configuration and an autoscaled endpoint that replaces itself without a gap."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from settings.hardware import ml_instance
from torchlift import permissions
from torchlift.endpoint_alarms import EndpointAlarms
from torchlift.endpoint_metrics import WatchedVariant
from torchlift.endpoint_scaling import EndpointScaling
from torchlift.endpoint_update import UpdatePolicy
from torchlift.endpoint_variants import Capture, ServingImage, Variant, check_variants
from torchlift.execution_role import ExecutionRole
from torchlift.interface_drain import InterfaceDrain


class SageMakerEndpoint(Construct):
    """Models behind the variants of one endpoint.

    The endpoint's name is fixed and carries the variants and their instance types: rollback alarms must exist before
    it and name it, and SageMaker refuses to change the type of an autoscaled variant or to remove one, so another set
    of them makes a new endpoint. Models and configuration have generated names, so that a change of either makes a new
    one and an update that finds it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint_name: str,
        image: ServingImage,
        variants: Sequence[Variant],
        update: UpdatePolicy,
        vpc_subnets: Sequence[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
        key: kms.IKey,
        volume_key: kms.IKey | None,
        log_group: logs.LogGroup,
        log_groups: str,
        latency_p99_ms: int,
        client_error_percent: int,
        alarm_topic_arn: str,
        lasting: Construct,
        log_retention: logs.RetentionDays,
        capture: Capture | None = None,
        after: Sequence[IDependable] = (),
    ) -> None:
        """Declare role, models, configuration, endpoint, scaling and alarms.

        :param volume_key: encrypts the storage volumes; None for types whose local disks encrypt in hardware, where
            SageMaker refuses a key
        :param log_group: declared under SageMaker's own name for this endpoint: SageMaker would make it otherwise
        :param log_groups: pattern of the names of the groups of this endpoint and of those that it replaces
        :param lasting: outlives an endpoint that another type replaces, and holds what must: the role with which
            SageMaker removes the old endpoint's network interfaces, and the wait for that, which would be in vain while
            the new endpoint has interfaces in the same group
        :param log_retention: of the functions' own logs
        :param latency_p99_ms: milliseconds of the model from which on an alarm speaks and an update is rolled back
        :param client_error_percent: share of invocations answered 4XX from which on an alarm speaks
        :param after: what must exist before the models: the jobs that make image and archives
        :raises ValueError: SageMaker would refuse the variants as they are
        """
        super().__init__(scope, id)
        check_variants(variants, capture)
        self.variants = tuple(variants)
        self.literal_name = endpoint_name
        self._image = image
        self.watched = [
            _watched(
                variant,
                endpoint_name=endpoint_name,
                prefix=endpoint_name if len(variants) == 1 else f"{endpoint_name}-{variant.name}",
                latency_p99_ms=latency_p99_ms,
                client_error_percent=client_error_percent,
            )
            for variant in variants
        ]
        scopes = {variant.name: Construct(self, f"Variant{variant.name}") for variant in variants}
        alarms = [
            EndpointAlarms(scopes[one.name], "Alarms", variant=one, topic_arn=alarm_topic_arn) for one in self.watched
        ]
        self.alarms = [alarm for one in alarms for alarm in one.alarms]
        alarm_names = [name for one in alarms for name in one.rollback_names]
        access = ExecutionRole(
            lasting,
            "Execution",
            image=image,
            key=key,
            log_groups=log_groups,
            subnets=vpc_subnets,
            security_group=security_group,
            alarm_names=alarm_names,
            volume_key=volume_key,
            capture=capture,
            lists=any(variant.many for variant in variants),
        )
        self.role: iam.Role = access.role
        drain = InterfaceDrain(lasting, "Drain", security_group=security_group, key=key, log_retention=log_retention)
        # SageMaker removes its interfaces with this role, after the endpoint is gone.
        drain.node.add_dependency(access)
        self.models = {
            variant.name: self._build_model(scopes[variant.name], variant, vpc_subnets, security_group)
            for variant in variants
        }
        for model in self.models.values():
            # A role without its policy cannot read the archive yet: the first deploy would fail, the second work.
            model.node.add_dependency(access, drain, log_group, *after)
        self.config = self._build_config(volume_key, capture)
        self.configuration: dict[str, object] = {
            "image": image.uri,
            "variants": [variant.configuration for variant in variants],
            "network": [security_group.security_group_id, *(subnet.subnet_id for subnet in vpc_subnets)],
            "volume_key": volume_key.key_arn if volume_key else "",
            "capture": [capture.prefix, capture.sampling_percent] if capture else [],
        }
        """All that decides over models and configuration, and nothing else; holds tokens."""
        self.endpoint = self._build_endpoint(endpoint_name, update.render(alarm_names))
        self.endpoint.node.add_dependency(access, drain, log_group, *alarms)
        for variant, watched in zip(variants, self.watched, strict=True):
            scaling = EndpointScaling(
                scopes[variant.name],
                "Scaling",
                variant=watched,
                scale_in_cooldown_seconds=variant.fleet.scale_in_cooldown_seconds,
                scale_out_cooldown_seconds=variant.fleet.scale_out_cooldown_seconds,
                concurrent_requests=variant.fleet.concurrent_requests,
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
        self,
        scope: Construct,
        variant: Variant,
        subnets: Sequence[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
    ) -> sagemaker.CfnModel:
        model, many = sagemaker.CfnModel, variant.many
        cache = (
            model.MultiModelConfigProperty(model_cache_setting="Enabled" if many.caching else "Disabled")
            if many
            else None
        )
        return model(
            scope,
            "Model",
            execution_role_arn=self.role.role_arn,
            enable_network_isolation=True,
            vpc_config=model.VpcConfigProperty(
                subnets=[subnet.subnet_id for subnet in subnets],
                security_group_ids=[security_group.security_group_id],
            ),
            primary_container=model.ContainerDefinitionProperty(
                image=self._image.uri,
                model_data_url=self._image.bucket.s3_url_for_object(variant.path),
                environment=dict(variant.environment),
                mode="MultiModel" if many else None,
                multi_model_config=cache,
            ),
        )

    def _build_config(self, volume_key: kms.IKey | None, capture: Capture | None) -> sagemaker.CfnEndpointConfig:
        config = sagemaker.CfnEndpointConfig
        made = config(
            self,
            "Config",
            kms_key_id=volume_key.key_arn if volume_key else None,
            data_capture_config=_capture(capture) if capture else None,
            production_variants=[
                config.ProductionVariantProperty(
                    variant_name=variant.name,
                    model_name=self.models[variant.name].attr_model_name,
                    instance_type=variant.fleet.instance_type,
                    initial_instance_count=variant.fleet.initial,
                    initial_variant_weight=variant.weight,
                    container_startup_health_check_timeout_in_seconds=variant.fleet.health_check_timeout_seconds,
                    model_data_download_timeout_in_seconds=variant.fleet.model_download_timeout_seconds,
                    inference_ami_version=variant.fleet.ami_version,
                )
                for variant in self.variants
            ],
        )
        if volume_key is None:
            Validations.of(made).acknowledge(
                Acknowledgment(
                    id="NIST.800.53.R5::NIST.800.53.R5-SageMakerEndpointConfigurationKMSKeyConfigured",
                    reason="The settings ask for none, which types with local disks require: these encrypt in "
                    "hardware, and SageMaker refuses a key for them",
                )
            )
        return made

    def _build_endpoint(
        self, name: str, deployment_config: sagemaker.CfnEndpoint.DeploymentConfigProperty
    ) -> sagemaker.CfnEndpoint:
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
            deployment_config=deployment_config,
        )


def _watched(
    variant: Variant, *, endpoint_name: str, prefix: str, latency_p99_ms: int, client_error_percent: int
) -> WatchedVariant:
    fleet, hardware = variant.fleet, ml_instance(variant.fleet.instance_type)
    return WatchedVariant(
        endpoint_name=endpoint_name,
        name=variant.name,
        prefix=prefix,
        vcpus=hardware.vcpus,
        memory_gib=hardware.memory_gib,
        minimum=fleet.minimum,
        maximum=fleet.maximum,
        invocations_per_instance=fleet.invocations_per_instance,
        cpu_target_percent=fleet.cpu_target_percent,
        latency_p99_ms=latency_p99_ms,
        client_error_percent=client_error_percent,
        gpus=hardware.gpus,
        gpu_target_percent=fleet.gpu_target_percent or 0,
        loading_wait_ms=variant.many.loading_wait_ms if variant.many else None,
        cache_hit_percent=variant.many.cache_hit_percent if variant.many and variant.many.caching else None,
    )


def _capture(wanted: Capture) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty:
    config = sagemaker.CfnEndpointConfig
    return config.DataCaptureConfigProperty(
        enable_capture=True,
        initial_sampling_percentage=wanted.sampling_percent,
        destination_s3_uri=wanted.bucket.s3_url_for_object(wanted.prefix.removesuffix("/")),
        kms_key_id=wanted.key.key_arn,
        capture_options=[config.CaptureOptionProperty(capture_mode=mode) for mode in ("Input", "Output")],
        capture_content_type_header=config.CaptureContentTypeHeaderProperty(json_content_types=list(wanted.json_types)),
    )
