"""The Auto Scaling group of a fleet: its size, and how an update replaces its hosts one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import (
    Acknowledgment,
    CfnAutoScalingRollingUpdate,
    CfnCreationPolicy,
    CfnResourceSignal,
    CfnUpdatePolicy,
    Duration,
    Validations,
)
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

SIGNAL_WAIT = Duration.minutes(35)
"""How long the stack waits for each host: the deadline, finding capacity and booting. An hour at most."""
NOT_DURING_UPDATES = ("AZRebalance", "AlarmNotification", "HealthCheck", "ReplaceUnhealthy", "ScheduledActions")
"""What would launch and end instances while CloudFormation counts them (AWS re:Post, "rolling update … fails")."""


@dataclass(frozen=True, kw_only=True)
class FleetSize:
    """How many hosts, and when there are more.

    :param maximum: more than `minimum`: an update starts a new host before it ends an old one
    :param requests_per_instance: per minute, the scaling target
    :param cpu_target_percent: of all vCPUs, the scaling target
    :param warm_up_seconds: until a new host counts
    """

    minimum: int
    maximum: int
    requests_per_instance: int
    cpu_target_percent: int
    warm_up_seconds: int

    def __post_init__(self) -> None:
        if not 1 <= self.minimum < self.maximum:
            raise ValueError(
                f"{self.minimum} to {self.maximum} hosts: an update needs one more than the fewest, which are 1 or more"
            )


def fleet_group(
    scope: Construct,
    *,
    name: str,
    resource: str,
    size: FleetSize,
    template: ec2.CfnLaunchTemplate,
    tags: Mapping[str, str],
    subnets: Sequence[ec2.ISubnet],
    target_group_arn: str,
    grace: Duration,
    spot: bool,
) -> autoscaling.CfnAutoScalingGroup:
    """Declare the group. Its creation and each update of it wait for a signal from every host.

    :param resource: the logical id, by which hosts signal
    :param grace: for which a new host may not answer yet
    """
    kind = autoscaling.CfnAutoScalingGroup
    group = kind(
        scope,
        "Group",
        auto_scaling_group_name=name,
        # No DesiredCapacity: CloudFormation would set a group that scaled out back to it with every update.
        min_size=str(size.minimum),
        max_size=str(size.maximum),
        vpc_zone_identifier=[subnet.subnet_id for subnet in subnets],
        launch_template=kind.LaunchTemplateSpecificationProperty(launch_template_id=template.ref, version="1"),
        target_group_arns=[target_group_arn],
        health_check_type="ELB",
        # A host that starts must not be replaced for not answering yet.
        health_check_grace_period=grace.to_seconds(),
        default_instance_warmup=size.warm_up_seconds,
        # A Spot host whose end is likely gets its successor before it goes.
        capacity_rebalance=True if spot else None,
        metrics_collection=[kind.MetricsCollectionProperty(granularity="1Minute")],
        tags=[
            kind.TagPropertyProperty(key=name, value=value, propagate_at_launch=False)
            for name, value in sorted(tags.items())
        ],
    )
    group.override_logical_id(resource)
    wait = SIGNAL_WAIT.to_iso_string()
    group.cfn_options.creation_policy = CfnCreationPolicy(
        resource_signal=CfnResourceSignal(count=size.minimum, timeout=wait)
    )
    group.cfn_options.update_policy = CfnUpdatePolicy(
        auto_scaling_rolling_update=CfnAutoScalingRollingUpdate(
            max_batch_size=1,
            # CloudFormation's own default is 0: the only host would end before the new one starts.
            min_instances_in_service=size.minimum,
            wait_on_resource_signals=True,
            pause_time=wait,
            suspend_processes=list(NOT_DURING_UPDATES),
        )
    )
    Validations.of(group).acknowledge(
        Acknowledgment(
            id="AwsSolutions::AwsSolutions-AS3",
            reason="Alarms tell of too few hosts, of hosts that do not answer and of hosts that failed to start; "
            "a mail for every instance that scaling starts or ends would hide them",
        )
    )
    return group
