"""FleetMetrics: what the load balancer, the group and the hosts' monitor tell CloudWatch about a fleet.

Names, units and dimensions: "CloudWatch metrics for your Application Load Balancer" (user guide), "Amazon CloudWatch
metrics for Amazon EC2 Auto Scaling" (user guide), and model_code/neuron_monitor.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

MONITOR = "Torchlift/QuestionAnswering"
"""The namespace of model_code/neuron_monitor."""
MINUTE = Duration.minutes(1)
FIVE_MINUTES = Duration.minutes(5)
LEAST_REQUESTS = 50
"""Requests in five minutes below which a share of errors says nothing: one bad client at night is no incident."""


@dataclass(frozen=True, kw_only=True)
class WatchedFleet:
    """A fleet, and what its settings ask of it.

    :param prefix: start of the names of what belongs to it, which an account knows once
    :param group_name: the Auto Scaling group's
    :param balancer, targets: full names, the dimensions of the load balancer's metrics
    :param cores: served NeuronCores of a host
    :param core_memory_mib: device memory of one core, MiB
    :param requests_per_instance: per minute, the scaling target
    :param latency_p99_ms: milliseconds at the load balancer for 99 of 100 requests
    :param server_error_percent: share of requests answered 5XX from which on something is wrong
    """

    deployment: str
    prefix: str
    group_name: str
    balancer: str
    targets: str
    cores: int
    core_memory_mib: int
    minimum: int
    maximum: int
    requests_per_instance: int
    cpu_target_percent: int
    latency_p99_ms: int
    server_error_percent: int


class FleetMetrics:
    """The metrics of one fleet, one value a minute where nothing else is said."""

    def __init__(self, fleet: WatchedFleet) -> None:
        self.fleet = fleet

    def balanced(
        self, name: str, statistic: str, *, label: str = "", period: Duration = MINUTE, color: str | None = None
    ) -> cloudwatch.Metric:
        """A metric of the target group."""
        fleet = self.fleet
        dimensions = {"LoadBalancer": fleet.balancer, "TargetGroup": fleet.targets}
        return _metric("AWS/ApplicationELB", name, statistic, dimensions, label=label, period=period, color=color)

    def at_the_door(self, name: str, statistic: str, *, label: str = "", color: str | None = None) -> cloudwatch.Metric:
        """A metric of the load balancer itself."""
        dimensions = {"LoadBalancer": self.fleet.balancer}
        return _metric("AWS/ApplicationELB", name, statistic, dimensions, label=label, color=color)

    def load(self) -> cloudwatch.Metric:
        """Requests of a minute and host."""
        dimensions = {"TargetGroup": self.fleet.targets}
        return _metric("AWS/ApplicationELB", "RequestCountPerTarget", "Sum", dimensions, label="requests")

    def cpu(self) -> cloudwatch.Metric:
        """Per cent of all vCPUs, mean of the hosts."""
        dimensions = {"AutoScalingGroupName": self.fleet.group_name}
        return _metric("AWS/EC2", "CPUUtilization", "Average", dimensions, label="CPU")

    def instances(self, name: str, *, label: str) -> cloudwatch.Metric:
        """A count of the group's."""
        return _metric("AWS/AutoScaling", name, "Average", {"AutoScalingGroupName": self.fleet.group_name}, label=label)

    def monitored(self, name: str, statistic: str, *, label: str = "", color: str | None = None) -> cloudwatch.Metric:
        """A metric of the hosts' monitor, over all cores."""
        return _metric(MONITOR, name, statistic, {"Deployment": self.fleet.deployment}, label=label, color=color)

    def each_core(self, name: str, statistic: str) -> cloudwatch.MathExpression:
        """The same, a line for each core of each host: whichever are there."""
        search = (
            f'{{{MONITOR},Deployment,InstanceId,NeuronCore}} MetricName="{name}" Deployment="{self.fleet.deployment}"'
        )
        return cloudwatch.MathExpression(
            expression=f"SEARCH('{search}', '{statistic}', 60)", using_metrics={}, label="", period=MINUTE
        )

    def error_share(self, *, label: str = "") -> cloudwatch.MathExpression:
        """Per cent of the requests of five minutes that hosts answered 5XX; 0 when there were too few."""
        return cloudwatch.MathExpression(
            expression=f"IF(requests >= {LEAST_REQUESTS}, 100 * FILL(errors, 0) / requests, 0)",
            using_metrics={
                "errors": self.balanced("HTTPCode_Target_5XX_Count", "Sum", period=FIVE_MINUTES),
                "requests": self.balanced("RequestCount", "Sum", period=FIVE_MINUTES),
            },
            label=label or "5XX, % of requests",
            period=FIVE_MINUTES,
        )

    def overloaded_at_maximum(self) -> cloudwatch.MathExpression:
        """1 while all hosts that the settings allow are there and still carry more than a scaling target."""
        fleet = self.fleet
        return cloudwatch.MathExpression(
            expression=(
                f"IF(instances >= {fleet.maximum} AND "
                f"(FILL(load, 0) >= {fleet.requests_per_instance} OR cpu >= {fleet.cpu_target_percent}), 1, 0)"
            ),
            using_metrics={
                "instances": self.instances("GroupInServiceInstances", label=""),
                "load": self.load(),
                "cpu": self.cpu(),
            },
            label="overloaded at maximum",
            period=MINUTE,
        )


def _metric(
    namespace: str,
    name: str,
    statistic: str,
    dimensions: dict[str, str],
    *,
    label: str = "",
    period: Duration = MINUTE,
    color: str | None = None,
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=period,
        label=label or None,
        color=color,
    )
