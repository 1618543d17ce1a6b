"""EndpointScaling: how many instances a variant has."""

from __future__ import annotations

from aws_cdk import aws_applicationautoscaling as scaling
from constructs import Construct

from torchlift.endpoint_metrics import INSTANCES, WatchedVariant

Tracking = scaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty


class EndpointScaling(Construct):
    """Target tracking on invocations per instance and on CPU, on GPUs where there are any, on concurrency if asked.

    Invocations react first and say nothing about how long a text is; CPU sees that. With several target tracking
    policies on one target, Application Auto Scaling scales out when any of them asks for it, and in only when all
    agree (its user guide, "Target tracking scaling policies", considerations).

    The level-1 resources: the level-2 target makes a role that SageMaker never uses; registering makes the service's
    own.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        variant: WatchedVariant,
        scale_in_cooldown_seconds: int,
        scale_out_cooldown_seconds: int,
        concurrent_requests: float | None = None,
    ) -> None:
        """Declare target and policies.

        :param concurrent_requests: target of one instance; SageMaker counts them every ten seconds, but not those of
            multi-model endpoints
        """
        super().__init__(scope, id)
        self._variant = variant
        self._target = scaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=f"endpoint/{variant.endpoint_name}/variant/{variant.name}",
            min_capacity=variant.minimum,
            max_capacity=variant.maximum,
        )
        self._cooldowns = (scale_in_cooldown_seconds, scale_out_cooldown_seconds)
        predefined = scaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty
        self._policy(
            "Invocations",
            variant.invocations_per_instance,
            predefined=predefined(predefined_metric_type="SageMakerVariantInvocationsPerInstance"),
        )
        if variant.gpus:
            self._policy("Gpu", variant.gpu_target, customized=self._utilization("GPUUtilization"))
        self._policy("Cpu", variant.cpu_target, customized=self._utilization("CPUUtilization"))
        if concurrent_requests is not None:
            self._policy(
                "Concurrency",
                concurrent_requests,
                predefined=predefined(
                    predefined_metric_type="SageMakerVariantConcurrentRequestsPerModelHighResolution"
                ),
            )

    def _utilization(self, metric: str) -> scaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty:
        """A metric of the instances; each reports the sum over its vCPUs or GPUs."""
        policy, variant = scaling.CfnScalingPolicy, self._variant
        return policy.CustomizedMetricSpecificationProperty(
            namespace=INSTANCES,
            metric_name=metric,
            dimensions=[
                policy.MetricDimensionProperty(name="EndpointName", value=variant.endpoint_name),
                policy.MetricDimensionProperty(name="VariantName", value=variant.name),
            ],
            # Over the instances.
            statistic="Average",
            unit="Percent",
        )

    def _policy(
        self,
        id: str,
        target: float,
        *,
        predefined: scaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty | None = None,
        customized: scaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty | None = None,
    ) -> None:
        scale_in, scale_out = self._cooldowns
        scaling.CfnScalingPolicy(
            self,
            id,
            policy_name=f"{self._variant.prefix}-{id.lower()}",
            policy_type="TargetTrackingScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration=Tracking(
                target_value=target,
                predefined_metric_specification=predefined,
                customized_metric_specification=customized,
                scale_in_cooldown=scale_in,
                scale_out_cooldown=scale_out,
            ),
        )
