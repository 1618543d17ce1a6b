"""FleetAlarms: what tells people that a fleet is unwell."""

from __future__ import annotations

from constructs import Construct

from torchlift.fleet_metrics import FleetMetrics, WatchedFleet
from torchlift.watched_alarms import SHARE, SLOW, Watch, WatchedAlarms

CORE_PERCENT = 90
"""A core that computes so much of the time has requests waiting for it, whatever the CPU does."""
DEVICE_MEMORY_PERCENT = 90
"""A new model is loaded before the old one goes; without room for it, a change of models fails."""
BALANCER_ERRORS = 5
"""A minute; one is a client that went, or a host in the second in which it ended."""


FAST = Watch(breaching=3, periods=5)
# Longer than a host may take to start, for what is also seen of hosts that start.
STARTING = Watch(breaching=30, periods=30)
# What is always sent: no value is a value.
ALWAYS = Watch(breaching=5, periods=5, silence_breaches=True)
SILENT = Watch(breaching=15, periods=15, silence_breaches=True)


class FleetAlarms(WatchedAlarms):
    """The alarms of one fleet, reported to the alarm topic; :attr:`alarms` in order of weight.

    CloudFormation rolls an Auto Scaling group back by its signals, not by alarms: a host signals after it answered.
    """

    def __init__(self, scope: Construct, id: str, *, fleet: WatchedFleet, topic_arn: str) -> None:
        """Declare them."""
        super().__init__(scope, id, prefix=fleet.prefix, topic_arn=topic_arn)
        self._fleet = fleet
        metrics = FleetMetrics(fleet)
        self._hosts(metrics)
        self._requests(metrics)
        self._cores(metrics)

    def _hosts(self, metrics: FleetMetrics) -> None:
        fleet = self._fleet
        self._alarm(
            "healthy-hosts",
            f"fewer than {fleet.minimum} hosts answer",
            metric=metrics.balanced("HealthyHostCount", "Minimum"),
            threshold=fleet.minimum,
            watch=ALWAYS,
            below=True,
        )
        self._alarm(
            "unhealthy-hosts",
            "a host has not answered for longer than one may take to start",
            metric=metrics.balanced("UnHealthyHostCount", "Maximum"),
            threshold=1,
            watch=STARTING,
        )
        self._alarm(
            "fleet-capacity",
            f"all {fleet.maximum} hosts are there and still carry more than a scaling target",
            metric=metrics.overloaded_at_maximum(),
            threshold=1,
            watch=SLOW,
        )

    def _requests(self, metrics: FleetMetrics) -> None:
        fleet = self._fleet
        self._alarm(
            "fleet-errors",
            f"{fleet.server_error_percent} % or more of the requests are answered 5XX by the hosts",
            metric=metrics.error_share(),
            threshold=fleet.server_error_percent,
            watch=SHARE,
        )
        self._alarm(
            "balancer-errors",
            f"the load balancer itself answers {BALANCER_ERRORS} or more requests a minute with 5XX",
            metric=metrics.at_the_door("HTTPCode_ELB_5XX_Count", "Sum"),
            threshold=BALANCER_ERRORS,
            watch=FAST,
        )
        self._alarm(
            "fleet-latency",
            f"1 in 100 requests takes {fleet.latency_p99_ms} ms or longer",
            metric=metrics.balanced("TargetResponseTime", "p99"),
            # The load balancer reports seconds.
            threshold=fleet.latency_p99_ms / 1000,
            watch=FAST,
        )

    def _cores(self, metrics: FleetMetrics) -> None:
        self._alarm(
            "core-errors",
            "executions fail on a NeuronCore",
            metric=metrics.monitored("ExecutionErrors", "Sum"),
            threshold=1,
            watch=FAST,
        )
        self._alarm(
            "core-down",
            "the server of a NeuronCore has not answered for longer than one may take to start",
            metric=metrics.monitored("ServerUp", "Minimum"),
            threshold=1,
            watch=STARTING,
            below=True,
        )
        self._alarm(
            "core-utilization",
            f"the NeuronCores are busy {CORE_PERCENT} % of the time: scaling out has not helped",
            metric=metrics.monitored("CoreUtilization", "Average"),
            threshold=CORE_PERCENT,
            watch=SLOW,
        )
        self._alarm(
            "device-memory",
            f"{DEVICE_MEMORY_PERCENT} % or more of a NeuronCore's memory is used",
            metric=metrics.monitored("DeviceMemory", "Maximum"),
            threshold=self._fleet.core_memory_mib * 1024 * 1024 * DEVICE_MEMORY_PERCENT // 100,
            watch=SLOW,
        )
        self._alarm(
            "monitor-silent",
            "no host sends metrics of its cores",
            metric=metrics.monitored("ServerUp", "SampleCount"),
            threshold=1,
            watch=SILENT,
            below=True,
        )
