"""What /metrics shows."""

from __future__ import annotations

import functools
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STAGES = ("prepare", "queue", "inference", "total")


class Metrics:
    """Counters of one process, all with its core as a label."""

    def __init__(self, core: int) -> None:
        self.registry = CollectorRegistry()
        self._core = str(core)
        # Finding a series by its labels costs more than adding to it.
        self._series: Any = functools.cache(lambda metric, *values: metric.labels(self._core, *values))
        self.queue_rows = Gauge(
            "torchlift_queue_rows", "Rows that wait for the core", ["core"], registry=self.registry
        ).labels(self._core)
        self.pending = Gauge(
            "torchlift_pending_rows", "Rows let in and not answered yet", ["core"], registry=self.registry
        ).labels(self._core)
        self._responses = Counter(
            "torchlift_responses", "HTTP responses", ["core", "path", "status"], registry=self.registry
        )
        self._batch_rows = Histogram(
            "torchlift_batch_rows", "Real rows of a batch", ["core", "model"],
            buckets=(1, 2, 4, 8, 16, 32, 64), registry=self.registry,
        )  # fmt: skip
        self._shapes = Counter(
            "torchlift_batches", "Batches by compiled shape", ["core", "model", "batch", "length"],
            registry=self.registry,
        )  # fmt: skip
        self._batch_seconds = Histogram(
            "torchlift_batch_seconds", "Time of a batch on the core", ["core", "model"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self._stages = Histogram(
            "torchlift_stage_seconds", "Time of an input by stage", ["core", "model", "stage"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.list_failures = Counter(
            "torchlift_model_list_failures", "Lists of models that could not be followed", ["core"],
            registry=self.registry,
        ).labels(self._core)  # fmt: skip

    def response(self, path: str, status: int) -> None:
        """Count an HTTP response; `path` is a route's template, or callers could make endless many series."""
        self._series(self._responses, path, str(status)).inc()

    def batch(self, model: str, *, rows: int, batch: int, length: int, seconds: float) -> None:
        """Note a batch."""
        self._series(self._batch_rows, model).observe(rows)
        self._series(self._shapes, model, str(batch), str(length)).inc()
        self._series(self._batch_seconds, model).observe(seconds)

    def stages(self, model: str, seconds: tuple[float, float, float, float]) -> None:
        """Note the times of one input, in the order of STAGES."""
        for stage, value in zip(STAGES, seconds, strict=True):
            self._series(self._stages, model, stage).observe(value)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
