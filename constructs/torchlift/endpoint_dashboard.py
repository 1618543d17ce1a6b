"""EndpointDashboard: what one looks at when an endpoint is unwell, top to bottom in the order of the questions.

`cdk-monitoring-constructs` was tried instead (10.3.3): 8 MB more to install, a second longer to import, and it knows no
SageMaker, so every line below would be there too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from torchlift.endpoint_alarms import cpu_limit, gpu_limit, overhead_limit, server_errors
from torchlift.endpoint_metrics import EndpointMetrics, WatchedVariant

WIDTH = 24
"""Columns of a dashboard (CloudWatch user guide, "Dashboard body structure and syntax")."""
TEXT_HEIGHT, GRAPH_HEIGHT = 3, 6
RED, ORANGE = "#d13212", "#ff9900"
ERRORS = "fields @timestamp, @log, @message | filter @message like /(?i)error|exception|fail/ | sort @timestamp desc"
LOADING = {"LoadingWait": "waiting", "Downloading": "downloading", "Loading": "loading", "Unloading": "unloading"}
SHOWN = 30
"""Lines of the logs."""

Lines = list[cloudwatch.IMetric]
_Graph = Callable[[int], cloudwatch.IWidget]
"""A graph, given its width."""


def _row(graphs: Sequence[_Graph]) -> list[cloudwatch.IWidget]:
    """Graphs side by side over the whole width."""
    return [graph(WIDTH // len(graphs)) for graph in graphs]


class EndpointDashboard(Construct):
    """One dashboard of a workload: traffic, latency and capacity of every variant, its training, and the last errors.

    Thresholds of alarms and targets of scaling stand in the graphs. It belongs to the workload, not to an endpoint: one
    that takes another's place is shown on the same dashboard.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        title: str,
        variants: Sequence[WatchedVariant],
        alarms: Sequence[cloudwatch.IAlarm],
        log_groups: Sequence[str],
        training: Mapping[str, str] | None = None,
        links: Sequence[str] = (),
    ) -> None:
        """Declare the dashboard; :attr:`url` is its page in the console.

        :param name: an account knows it once
        :param log_groups: names of the groups whose last errors are shown, the endpoint's among them
        :param training: dimensions of the training's own metrics (namespace `Torchlift`), when there is one
        :param links: lines of Markdown for the head
        """
        super().__init__(scope, id)
        self._metrics = {variant.name: EndpointMetrics(variant) for variant in variants}
        self._variants = variants
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=name,
            default_interval=Duration.hours(3),
            widgets=[
                [self._head(title, links)],
                [cloudwatch.AlarmStatusWidget(alarms=list(alarms), title="Alarms", width=WIDTH, height=TEXT_HEIGHT)],
                _row(self._traffic()),
                _row(self._latency()),
                _row(self._capacity()),
                *([_row(self._gpus())] if variants[0].gpus else []),
                *([_row(self._models())] if variants[0].loading_wait_ms is not None else []),
                *([_row(self._training(training))] if training else []),
                [self._logs(log_groups)],
            ],
        )
        region = Stack.of(self).region
        self.url = (
            f"https://{region}.console.{Aws.URL_SUFFIX}/cloudwatch/home?region={region}#dashboards/dashboard/{name}"
        )

    def _head(self, title: str, links: Sequence[str]) -> cloudwatch.TextWidget:
        lines = [f"# {title}", *links]
        return cloudwatch.TextWidget(markdown="\n\n".join(lines), width=WIDTH, height=TEXT_HEIGHT)

    def _traffic(self) -> list[_Graph]:
        first = self._variants[0]
        return [
            self._graph(
                "Invocations a minute and instance",
                self._each(
                    lambda metrics, label: [
                        metrics.invoked("InvocationsPerInstance", "Sum", label=f"{label}invocations")
                    ]
                ),
                lines={"scaling target": first.invocations_per_instance},
            ),
            self._graph(
                "Errors a minute",
                self._each(
                    lambda metrics, label: [
                        metrics.invoked("Invocation5XXErrors", "Sum", label=f"{label}5XX", color=RED),
                        metrics.invoked("Invocation4XXErrors", "Sum", label=f"{label}4XX", color=ORANGE),
                    ]
                ),
                lines={"alarm, 5XX": server_errors(first)},
            ),
            self._graph(
                "Refused (4XX), % of invocations",
                self._each(lambda metrics, label: [metrics.client_error_share(label=label)]),
                lines={"alarm": first.client_error_percent},
                most=100,
            ),
        ]

    def _latency(self) -> list[_Graph]:
        first = self._variants[0]

        def graph(title: str, name: str, limit: int) -> _Graph:
            return self._graph(
                title,
                self._each(
                    lambda metrics, label: [
                        metrics.milliseconds(name, one, label=label) for one in ("p50", "p90", "p99")
                    ]
                ),
                lines={"alarm, p99": limit},
            )

        return [
            graph("Model latency, ms", "ModelLatency", first.latency_p99_ms),
            graph("SageMaker's own latency, ms", "OverheadLatency", overhead_limit(first)),
        ]

    def _capacity(self) -> list[_Graph]:
        first = self._variants[0]
        return [
            self._graph(
                "Instances",
                self._each(lambda metrics, label: [metrics.instances(label=f"{label}in service")]),
                lines={"fewest": first.minimum, "most": first.maximum},
            ),
            self._graph(
                f"CPU, sum over {first.vcpus} vCPUs, %",
                self._each(lambda metrics, label: [metrics.used("CPUUtilization", label=f"{label}CPU")]),
                lines={"scaling target": first.cpu_target, "alarm": cpu_limit(first)},
                most=100 * first.vcpus,
            ),
            self._graph(
                "Memory and disk, %",
                self._each(
                    lambda metrics, label: [
                        metrics.used("MemoryUtilization", statistic="Maximum", label=f"{label}memory"),
                        metrics.used("DiskUtilization", statistic="Maximum", label=f"{label}disk"),
                    ]
                ),
                most=100,
            ),
        ]

    def _gpus(self) -> list[_Graph]:
        first = self._variants[0]
        return [
            self._graph(
                f"GPU, sum over {first.gpus}, %",
                self._each(lambda metrics, label: [metrics.used("GPUUtilization", label=f"{label}GPU")]),
                lines={"scaling target": first.gpu_target, "alarm": gpu_limit(first)},
                most=100 * first.gpus,
            ),
            self._graph(
                f"GPU memory, sum over {first.gpus}, %",
                self._each(
                    lambda metrics, label: [
                        metrics.used("GPUMemoryUtilization", statistic="Maximum", label=f"{label}GPU memory")
                    ]
                ),
                most=100 * first.gpus,
            ),
        ]

    def _models(self) -> list[_Graph]:
        first = self._variants[0]
        hits = first.cache_hit_percent
        return [
            self._graph(
                "Models loaded, on an instance",
                self._each(lambda metrics, label: [metrics.used("LoadedModelCount", label=f"{label}models")]),
            ),
            self._graph(
                "Requests whose model was not loaded, %",
                self._each(lambda metrics, label: [metrics.cache_miss_share(label=label)]),
                lines={"alarm": 100 - hits} if hits is not None else {},
                most=100,
            ),
            self._graph(
                "Waiting for models, ms",
                self._each(
                    lambda metrics, label: [
                        metrics.model_milliseconds(f"Model{name}Time", label=f"{label}{text}")
                        for name, text in LOADING.items()
                    ]
                ),
                lines={"alarm, waiting": first.loading_wait_ms or 0},
            ),
        ]

    def _training(self, dimensions: Mapping[str, str]) -> list[_Graph]:
        def metric(name: str, label: str) -> cloudwatch.IMetric:
            return cloudwatch.Metric(
                namespace="Torchlift",
                metric_name=name,
                dimensions_map=dict(dimensions),
                statistic="Average",
                period=Duration.minutes(1),
                label=label,
            )

        return [
            self._graph("Training: loss", [metric("TrainingLoss", "loss")]),
            self._graph("Training: macro recall", [metric("ValidationMacroRecall", "macro recall")], most=1),
            self._graph("Training: samples a second", [metric("SamplesPerSecond", "samples/s")]),
            self._graph("Training: done, %", [metric("ProgressPercent", "done")], most=100),
        ]

    def _logs(self, groups: Sequence[str]) -> cloudwatch.LogQueryWidget:
        return cloudwatch.LogQueryWidget(
            title="Last errors of endpoint and jobs",
            log_group_names=list(groups),
            query_string=f"{ERRORS} | limit {SHOWN}",
            width=WIDTH,
            height=GRAPH_HEIGHT,
        )

    def _each(self, make: Callable[[EndpointMetrics, str], Lines]) -> Lines:
        """The lines of every variant, with its name before the label where there are several."""
        several = len(self._variants) > 1
        return [line for name, one in self._metrics.items() for line in make(one, f"{name} " if several else "")]

    @staticmethod
    def _graph(
        title: str, metrics: Lines, *, lines: Mapping[str, float] | None = None, most: float | None = None
    ) -> _Graph:
        return lambda width: cloudwatch.GraphWidget(
            title=title,
            width=width,
            left=metrics,
            left_annotations=[
                cloudwatch.HorizontalAnnotation(
                    value=value, label=label, color=RED if label.startswith("alarm") else ORANGE
                )
                for label, value in (lines or {}).items()
            ],
            left_y_axis=cloudwatch.YAxisProps(min=0, max=most, show_units=False),
            height=GRAPH_HEIGHT,
        )
