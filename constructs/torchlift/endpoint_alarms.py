"""EndpointAlarms: what tells people, and what rolls an update back."""

from __future__ import annotations

from constructs import Construct

from torchlift.endpoint_metrics import EndpointMetrics, WatchedVariant
from torchlift.watched_alarms import SHARE, SLOW, Watch, WatchedAlarms

ERROR_SHARE = 0.005
"""Server errors, as a share of the load that the smallest fleet is meant for, from which on something is wrong."""
FREE_MEMORY_GIB = 1
"""What a TorchServe worker with a RoBERTa base needs when it starts again beside the others."""
DISK_PERCENT = 80
GPU_MEMORY_PERCENT = 95
"""So full, a request that needs a little more fails."""


# A rollback must come within the bake time of five minutes.
FAST = Watch(breaching=2, periods=3)


def server_errors(variant: WatchedVariant) -> int:
    """Failed invocations a minute: :data:`ERROR_SHARE` of the smallest fleet's load, and two at least."""
    return max(2, round(ERROR_SHARE * variant.invocations_per_instance * variant.minimum))


def cpu_limit(variant: WatchedVariant) -> int:
    """Sum of per cent over the vCPUs: halfway from the scaling target to full. So high, scaling has not helped."""
    return round((variant.cpu_target_percent + 100) / 2 * variant.vcpus)


def gpu_limit(variant: WatchedVariant) -> int:
    """Sum of per cent over the GPUs, as :func:`cpu_limit`."""
    return round((variant.gpu_target_percent + 100) / 2 * variant.gpus)


def overhead_limit(variant: WatchedVariant) -> int:
    """Milliseconds of SageMaker's share of a request: all but the model's own, the wait for the model included."""
    return variant.latency_p99_ms + (variant.loading_wait_ms or 0)


def memory_limit(variant: WatchedVariant) -> int:
    """Per cent: all but :data:`FREE_MEMORY_GIB`, within 80 and 90. There is no swap: at 100 a worker is killed."""
    return round(min(90, max(80, 100 * (1 - FREE_MEMORY_GIB / variant.memory_gib))))


class EndpointAlarms(WatchedAlarms):
    """The alarms of one variant, reported to the alarm topic.

    The names are fixed: the endpoint names the alarms that roll its updates back, and the alarms name the endpoint, so
    one side must not refer to the other. No data is no alarm: an endpoint without traffic is well, and metrics of
    instances that do not come are the update's or the endpoint's own failure, which the deploy reports.
    """

    def __init__(self, scope: Construct, id: str, *, variant: WatchedVariant, topic_arn: str) -> None:
        """Declare the alarms; :attr:`rollback_names` are literal, :attr:`alarms` all of them in order of weight.

        An endpoint takes ten rollback alarms at most (SageMaker API reference, AutoRollbackConfig): five variants.
        """
        super().__init__(scope, id, prefix=variant.prefix, topic_arn=topic_arn)
        self._variant = variant
        metrics = EndpointMetrics(variant)
        self._requests(metrics)
        self._instances(metrics)
        if variant.gpus:
            self._gpus(metrics)
        if variant.loading_wait_ms is not None:
            self._models(metrics, variant.loading_wait_ms)
        self.rollback_names = (f"{variant.prefix}-server-errors", f"{variant.prefix}-latency")

    def _requests(self, metrics: EndpointMetrics) -> None:
        variant = self._variant
        errors = server_errors(variant)
        self._alarm(
            "server-errors",
            f"{errors} or more invocations a minute fail",
            metric=metrics.invoked("Invocation5XXErrors", "Sum"),
            threshold=errors,
            watch=FAST,
        )
        self._alarm(
            "latency",
            f"1 in 100 requests takes the model {variant.latency_p99_ms} ms or longer",
            metric=metrics.invoked("ModelLatency", "p99"),
            # SageMaker reports microseconds.
            threshold=variant.latency_p99_ms * 1000,
            watch=FAST,
        )
        self._alarm(
            "client-errors",
            f"{variant.client_error_percent} % or more of the invocations are refused (4XX)",
            metric=metrics.client_error_share(),
            threshold=variant.client_error_percent,
            watch=SHARE,
        )
        self._alarm(
            "overhead",
            f"SageMaker adds {overhead_limit(variant)} ms or more to 1 in 100 requests, as much as the model may take"
            + (" and loading it may" if variant.loading_wait_ms is not None else ""),
            metric=metrics.invoked("OverheadLatency", "p99"),
            threshold=overhead_limit(variant) * 1000,
            watch=SLOW,
        )

    def _instances(self, metrics: EndpointMetrics) -> None:
        variant = self._variant
        self._alarm(
            "capacity",
            f"all {variant.maximum} instances are there and still carry more than a scaling target",
            metric=metrics.overloaded_at_maximum(),
            threshold=1,
            watch=SLOW,
        )
        self._alarm(
            "cpu",
            f"CPU stays at {cpu_limit(variant) // variant.vcpus} % or more: scaling out has not helped",
            metric=metrics.used("CPUUtilization"),
            threshold=cpu_limit(variant),
            watch=SLOW,
        )
        self._alarm(
            "memory",
            f"{memory_limit(variant)} % or more of the memory is used",
            metric=metrics.used("MemoryUtilization", statistic="Maximum"),
            threshold=memory_limit(variant),
            watch=SLOW,
        )
        if variant.loading_wait_ms is not None:
            # Many models fill the disk as they should: SageMaker deletes archives when it needs the room.
            return
        self._alarm(
            "disk",
            f"{DISK_PERCENT} % or more of the disk is used",
            metric=metrics.used("DiskUtilization", statistic="Maximum"),
            threshold=DISK_PERCENT,
            watch=SLOW,
        )

    def _gpus(self, metrics: EndpointMetrics) -> None:
        variant = self._variant
        self._alarm(
            "gpu",
            f"the GPUs stay at {gpu_limit(variant) // variant.gpus} % or more: scaling out has not helped",
            metric=metrics.used("GPUUtilization"),
            threshold=gpu_limit(variant),
            watch=SLOW,
        )
        if variant.loading_wait_ms is not None:
            # Many models fill the memory as they should, and make room for each other: see below.
            return
        self._alarm(
            "gpu-memory",
            f"{GPU_MEMORY_PERCENT} % or more of the GPUs' memory is used",
            metric=metrics.used("GPUMemoryUtilization", statistic="Maximum"),
            threshold=GPU_MEMORY_PERCENT * variant.gpus,
            watch=SLOW,
        )

    def _models(self, metrics: EndpointMetrics, loading_wait_ms: int) -> None:
        """What a memory too small for the models in use looks like from outside."""
        variant = self._variant
        self._alarm(
            "model-loading",
            f"requests wait {loading_wait_ms} ms or longer for their model to be downloaded and loaded",
            metric=metrics.invoked("ModelLoadingWaitTime", "Average"),
            # SageMaker reports microseconds.
            threshold=loading_wait_ms * 1000,
            watch=FAST,
        )
        if variant.cache_hit_percent is not None:
            self._alarm(
                "model-cache",
                f"fewer than {variant.cache_hit_percent} % of the requests find their model loaded",
                metric=metrics.cache_miss_share(),
                threshold=100 - variant.cache_hit_percent,
                watch=SHARE,
            )
