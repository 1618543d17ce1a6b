"""EndpointScaling: how many instances a variant has."""

from __future__ import annotations

from aws_cdk import aws_applicationautoscaling as scaling
from constructs import Construct

from torchlift.endpoint_metrics import INSTANCES, WatchedVariant

Tracking = scaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty


class EndpointScaling(Construct):
    """Target tracking on invocations per instance and on CPU.

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
    ) -> None:
        """Declare target and policies."""
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
        policy = scaling.CfnScalingPolicy
        self._policy(
            "Invocations",
            Tracking(
                target_value=variant.invocations_per_instance,
                predefined_metric_specification=policy.PredefinedMetricSpecificationProperty(
                    predefined_metric_type="SageMakerVariantInvocationsPerInstance"
                ),
                scale_in_cooldown=scale_in_cooldown_seconds,
                scale_out_cooldown=scale_out_cooldown_seconds,
            ),
        )
        self._policy(
            "Cpu",
            Tracking(
                target_value=variant.cpu_target,
                customized_metric_specification=policy.CustomizedMetricSpecificationProperty(
                    namespace=INSTANCES,
                    metric_name="CPUUtilization",
                    dimensions=[
                        policy.MetricDimensionProperty(name="EndpointName", value=variant.endpoint_name),
                        policy.MetricDimensionProperty(name="VariantName", value=variant.name),
                    ],
                    # Over the instances; each reports the sum over its vCPUs.
                    statistic="Average",
                    unit="Percent",
                ),
                scale_in_cooldown=scale_in_cooldown_seconds,
                scale_out_cooldown=scale_out_cooldown_seconds,
            ),
        )

    def _policy(self, id: str, tracking: Tracking) -> None:
        variant = self._variant
        scaling.CfnScalingPolicy(
            self,
            id,
            policy_name=f"{variant.prefix}-{id.lower()}",
            policy_type="TargetTrackingScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration=tracking,
        )
