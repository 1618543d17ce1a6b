"""EndpointMetrics: what SageMaker tells CloudWatch about one variant, as alarms and dashboards use it.

Names, units, statistics and dimensions: SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon CloudWatch".
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

INVOCATIONS = "AWS/SageMaker"
INSTANCES = "/aws/sagemaker/Endpoints"
MINUTE = Duration.minutes(1)
FIVE_MINUTES = Duration.minutes(5)
LEAST_INVOCATIONS = 50
"""Invocations in five minutes below which a share of errors says nothing: one bad client at night is no incident."""


@dataclass(frozen=True, kw_only=True)
class WatchedVariant:
    """One variant of an endpoint, its hardware, and what its settings ask of it.

    :param prefix: start of the names of what belongs to it, which an account knows once
    :param vcpus: of one instance
    :param memory_gib: of one instance, GiB
    :param invocations_per_instance: per minute, the scaling target
    :param cpu_target_percent: of all vCPUs, the scaling target
    :param latency_p99_ms: milliseconds that the model may take for 99 of 100 requests
    :param client_error_percent: share of invocations answered 4XX from which on something is wrong
    :param gpu_target_percent: of all GPUs, the scaling target
    :param loading_wait_ms: that requests of a multi-model variant may wait for models; None of another
    :param cache_hit_percent: share of requests that should find their model loaded; None when models are not kept
    """

    endpoint_name: str
    name: str
    prefix: str
    vcpus: int
    memory_gib: int
    minimum: int
    maximum: int
    invocations_per_instance: float
    cpu_target_percent: int
    latency_p99_ms: int
    client_error_percent: int
    gpus: int = 0
    gpu_target_percent: int = 0
    loading_wait_ms: int | None = None
    cache_hit_percent: int | None = None

    @property
    def gpu_target(self) -> int:
        """The scaling target as the metric counts it: the sum over the GPUs of one instance, 0 to 100 for each."""
        return self.gpu_target_percent * self.gpus

    @property
    def cpu_target(self) -> int:
        """The scaling target as the metric counts it: the sum over the vCPUs of one instance, 0 to 100 for each.

        `CPUUtilizationNormalized` would spare the product, but SageMaker sends it only for endpoints with inference
        components.
        """
        return self.cpu_target_percent * self.vcpus


class EndpointMetrics:
    """The metrics of one variant. `period`: of one data point, a minute where nothing is said."""

    def __init__(self, variant: WatchedVariant) -> None:
        self.variant = variant
        self._dimensions = {"EndpointName": variant.endpoint_name, "VariantName": variant.name}

    def invoked(
        self, name: str, statistic: str, *, label: str = "", period: Duration = MINUTE, color: str | None = None
    ) -> cloudwatch.Metric:
        """A metric of the requests."""
        return self._metric(INVOCATIONS, name, statistic, label=label, period=period, color=color)

    def used(self, name: str, *, statistic: str = "Average", label: str = "") -> cloudwatch.Metric:
        """A metric of the instances, per cent."""
        return self._metric(INSTANCES, name, statistic, label=label, period=MINUTE)

    def milliseconds(self, name: str, statistic: str, *, label: str = "") -> cloudwatch.MathExpression:
        """A latency, which SageMaker reports in microseconds."""
        id = self._id(f"{name[0].lower()}{name[1:]}{statistic}")
        return cloudwatch.MathExpression(
            expression=f"{id}/1000",
            using_metrics={id: self.invoked(name, statistic)},
            label=f"{label}{statistic}",
            period=MINUTE,
        )

    def client_error_share(self, *, label: str = "") -> cloudwatch.MathExpression:
        """Per cent of the invocations of five minutes answered 4XX; 0 when there were too few."""
        errors, invocations = self._id("errors"), self._id("invocations")
        return cloudwatch.MathExpression(
            expression=f"IF({invocations} >= {LEAST_INVOCATIONS}, 100 * {errors} / {invocations}, 0)",
            using_metrics={
                errors: self.invoked("Invocation4XXErrors", "Sum", period=FIVE_MINUTES),
                invocations: self.invoked("Invocations", "Sum", period=FIVE_MINUTES),
            },
            label=f"{label}4XX, % of invocations",
            period=FIVE_MINUTES,
        )

    def model_milliseconds(self, name: str, *, label: str = "") -> cloudwatch.MathExpression:
        """A time of loading or unloading models, on average, which SageMaker reports in microseconds."""
        id = self._id(f"{name[0].lower()}{name[1:]}")
        return cloudwatch.MathExpression(
            expression=f"{id}/1000", using_metrics={id: self.invoked(name, "Average")}, label=label, period=MINUTE
        )

    def cache_miss_share(self, *, label: str = "") -> cloudwatch.MathExpression:
        """Per cent of the requests of five minutes that found their model not loaded; 0 when there were too few."""
        hits, invocations = self._id("hits"), self._id("invocations")
        return cloudwatch.MathExpression(
            expression=f"IF({invocations} >= {LEAST_INVOCATIONS}, 100 * (1 - {hits}), 0)",
            using_metrics={
                hits: self.invoked("ModelCacheHit", "Average", period=FIVE_MINUTES),
                invocations: self.invoked("Invocations", "Sum", period=FIVE_MINUTES),
            },
            label=f"{label}model not loaded, % of requests",
            period=FIVE_MINUTES,
        )

    def instances(self, *, label: str = "") -> cloudwatch.Metric:
        """Instances in service: SageMaker publishes no count, but each sends one CPU value a minute."""
        return self._metric(INSTANCES, "CPUUtilization", "SampleCount", label=label, period=MINUTE)

    def overloaded_at_maximum(self) -> cloudwatch.MathExpression:
        """1 while all instances that the settings allow are there and still carry more than a scaling target."""
        variant = self.variant
        gpu = f" OR gpu >= {variant.gpu_target}" if variant.gpus else ""
        return cloudwatch.MathExpression(
            expression=(
                f"IF(instances >= {variant.maximum} AND "
                f"(load >= {variant.invocations_per_instance:g} OR cpu >= {variant.cpu_target}{gpu}), 1, 0)"
            ),
            using_metrics={
                "instances": self.instances(),
                "load": self.invoked("InvocationsPerInstance", "Sum"),
                "cpu": self.used("CPUUtilization"),
                **({"gpu": self.used("GPUUtilization")} if gpu else {}),
            },
            label="overloaded at maximum",
            period=MINUTE,
        )

    def _id(self, name: str) -> str:
        """An id that another variant's expressions on the same graph do not have: letters, digits, underscores."""
        return f"{name}_{self.variant.name.replace('-', '_')}"

    def _metric(
        self, namespace: str, name: str, statistic: str, *, label: str, period: Duration, color: str | None = None
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            dimensions_map=self._dimensions,
            statistic=statistic,
            period=period,
            label=label or None,
            color=color,
        )
