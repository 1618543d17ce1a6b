"""EndpointScaling: how many instances a variant has."""

from __future__ import annotations

from aws_cdk import aws_applicationautoscaling as scaling
from constructs import Construct


class EndpointScaling(Construct):
    """Target tracking on invocations per instance.

    The level-1 resources: the level-2 target makes a role that SageMaker never uses; registering makes the service's
    own.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint_name: str,
        variant_name: str,
        minimum: int,
        maximum: int,
        invocations_per_instance: float,
        scale_in_cooldown_seconds: int,
        scale_out_cooldown_seconds: int,
    ) -> None:
        """Declare target and policy.

        :param invocations_per_instance: per minute, the value to keep to
        """
        super().__init__(scope, id)
        target = scaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=f"endpoint/{endpoint_name}/variant/{variant_name}",
            min_capacity=minimum,
            max_capacity=maximum,
        )
        policy = scaling.CfnScalingPolicy
        policy(
            self,
            "Invocations",
            policy_name=f"{endpoint_name}-invocations",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.ref,
            target_tracking_scaling_policy_configuration=policy.TargetTrackingScalingPolicyConfigurationProperty(
                target_value=invocations_per_instance,
                predefined_metric_specification=policy.PredefinedMetricSpecificationProperty(
                    predefined_metric_type="SageMakerVariantInvocationsPerInstance"
                ),
                scale_in_cooldown=scale_in_cooldown_seconds,
                scale_out_cooldown=scale_out_cooldown_seconds,
            ),
        )
