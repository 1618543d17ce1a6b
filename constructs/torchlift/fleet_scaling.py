"""FleetScaling: how many hosts a fleet has."""

from __future__ import annotations

from aws_cdk import aws_autoscaling as autoscaling
from constructs import Construct

from torchlift.fleet_metrics import WatchedFleet

Tracking = autoscaling.CfnScalingPolicy.TargetTrackingConfigurationProperty
Predefined = autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty


class FleetScaling(Construct):
    """Target tracking on requests per host and on CPU.

    Requests react first and say nothing about how long a context is; CPU sees that. With several target tracking
    policies a group scales out when any of them asks for it, and in only when all agree (EC2 Auto Scaling user guide,
    "Target tracking scaling policies"). Such policies know no cooldown: a new host counts after its warm-up.
    """

    def __init__(self, scope: Construct, id: str, *, fleet: WatchedFleet, warm_up_seconds: int) -> None:
        """Declare both policies."""
        super().__init__(scope, id)
        requests = Predefined(
            predefined_metric_type="ALBRequestCountPerTarget", resource_label=f"{fleet.balancer}/{fleet.targets}"
        )
        cpu = Predefined(predefined_metric_type="ASGAverageCPUUtilization")
        for name, metric, target in (
            ("Requests", requests, fleet.requests_per_instance),
            ("Cpu", cpu, fleet.cpu_target_percent),
        ):
            autoscaling.CfnScalingPolicy(
                self,
                name,
                auto_scaling_group_name=fleet.group_name,
                policy_type="TargetTrackingScaling",
                estimated_instance_warmup=warm_up_seconds,
                target_tracking_configuration=Tracking(target_value=target, predefined_metric_specification=metric),
            )
