"""FleetDashboard: what one looks at when a fleet is unwell, top to bottom in the order of the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from torchlift.endpoint_dashboard import ERRORS, GRAPH_HEIGHT, ORANGE, RED, SHOWN, TEXT_HEIGHT, WIDTH
from torchlift.fleet_alarms import CORE_PERCENT, DEVICE_MEMORY_PERCENT
from torchlift.fleet_metrics import FleetMetrics, WatchedFleet

STAGES = ("Prepare", "Queue", "Inference", "Total")
"""What a server measures of each input (model_code/neuron_monitor/servers.py)."""


class FleetDashboard(Construct):
    """Traffic and latency at the load balancer, hosts, what the servers and the NeuronCores do, and the last errors.

    Thresholds of alarms and targets of scaling stand in the graphs.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        title: str,
        fleet: WatchedFleet,
        alarms: Sequence[cloudwatch.IAlarm],
        log_groups: Sequence[str],
        links: Sequence[str],
    ) -> None:
        """Declare the dashboard; :attr:`url` is its page in the console.

        :param name: an account knows it once
        :param log_groups: names of the groups whose last errors are shown
        :param links: lines of Markdown for the head
        """
        super().__init__(scope, id)
        metrics = FleetMetrics(fleet)
        head = cloudwatch.TextWidget(markdown="\n\n".join([f"# {title}", *links]), width=WIDTH, height=TEXT_HEIGHT)
        errors = cloudwatch.LogQueryWidget(
            title="Last errors of hosts, servers and jobs",
            log_group_names=list(log_groups),
            query_string=f"{ERRORS} | limit {SHOWN}",
            width=WIDTH,
            height=GRAPH_HEIGHT,
        )
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=name,
            default_interval=Duration.hours(3),
            widgets=[
                [head],
                [cloudwatch.AlarmStatusWidget(alarms=list(alarms), title="Alarms", width=WIDTH, height=TEXT_HEIGHT)],
                _traffic(metrics),
                _hosts(metrics),
                _servers(metrics),
                _cores(metrics),
                [errors],
            ],
        )
        region = Stack.of(self).region
        self.url = (
            f"https://{region}.console.{Aws.URL_SUFFIX}/cloudwatch/home?region={region}#dashboards/dashboard/{name}"
        )


def _traffic(metrics: FleetMetrics) -> list[cloudwatch.IWidget]:
    fleet = metrics.fleet
    return [
        _graph("Requests a minute and host", [metrics.load()], lines={"scaling target": fleet.requests_per_instance}),
        _graph(
            "Errors a minute",
            [
                metrics.at_the_door("HTTPCode_ELB_5XX_Count", "Sum", label="load balancer", color=RED),
                metrics.balanced("HTTPCode_Target_5XX_Count", "Sum", label="hosts, 5XX", color=ORANGE),
                metrics.balanced("HTTPCode_Target_4XX_Count", "Sum", label="hosts, 4XX"),
            ],
        ),
        _graph(
            "Latency at the load balancer, seconds",
            [metrics.balanced("TargetResponseTime", one, label=one) for one in ("p50", "p90", "p99")],
            lines={"alarm, p99": fleet.latency_p99_ms / 1000},
        ),
    ]


def _hosts(metrics: FleetMetrics) -> list[cloudwatch.IWidget]:
    fleet = metrics.fleet
    return [
        _graph(
            "Hosts",
            [
                metrics.balanced("HealthyHostCount", "Minimum", label="healthy"),
                metrics.balanced("UnHealthyHostCount", "Maximum", label="unhealthy, or starting", color=RED),
                metrics.instances("GroupDesiredCapacity", label="wanted"),
            ],
            lines={"fewest": fleet.minimum, "most": fleet.maximum},
        ),
        _graph("CPU, %", [metrics.cpu()], lines={"scaling target": fleet.cpu_target_percent}, most=100),
        _graph("Refused for a full queue, a minute", [metrics.monitored("Refused", "Sum", label="503", color=ORANGE)]),
    ]


def _servers(metrics: FleetMetrics) -> list[cloudwatch.IWidget]:
    stages = [metrics.monitored(f"{stage}Milliseconds", "Average", label=stage.lower()) for stage in STAGES]
    return [
        _graph("Latency by stage, ms, mean", stages),
        _graph(
            "Rows that wait",
            [metrics.monitored("QueueRows", "Average", label="mean"), metrics.monitored("QueueRows", "Maximum")],
        ),
        _graph("Rows of a batch, mean", [metrics.monitored("BatchRows", "Average", label="rows")]),
    ]


def _cores(metrics: FleetMetrics) -> list[cloudwatch.IWidget]:
    memory = metrics.fleet.core_memory_mib * 1024 * 1024
    return [
        _graph(
            "NeuronCores, %",
            [metrics.each_core("CoreUtilization", "Average")],
            lines={"alarm, mean": CORE_PERCENT},
            most=100,
        ),
        _graph(
            "Device memory of a NeuronCore, bytes",
            [metrics.each_core("DeviceMemory", "Maximum")],
            lines={"alarm": memory * DEVICE_MEMORY_PERCENT // 100},
            most=memory,
        ),
        _graph(
            "Servers that answer, and failed executions",
            [
                metrics.monitored("ServerUp", "Sum", label="servers"),
                metrics.monitored("ExecutionErrors", "Sum", label="failed executions", color=RED),
            ],
        ),
    ]


def _graph(
    title: str,
    metrics: Sequence[cloudwatch.IMetric],
    *,
    lines: Mapping[str, float] | None = None,
    most: float | None = None,
) -> cloudwatch.IWidget:
    return cloudwatch.GraphWidget(
        title=title,
        width=WIDTH // 3,
        height=GRAPH_HEIGHT,
        left=list(metrics),
        left_annotations=[
            cloudwatch.HorizontalAnnotation(
                value=value, label=label, color=RED if label.startswith("alarm") else ORANGE
            )
            for label, value in (lines or {}).items()
        ],
        left_y_axis=cloudwatch.YAxisProps(min=0, max=most, show_units=False),
    )
