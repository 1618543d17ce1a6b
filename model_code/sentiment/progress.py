"""How far a training is: a line every 15 seconds for people, and metrics for CloudWatch.

Metrics are printed, too, in CloudWatch's embedded metric format: the log group that gets a job's output extracts them,
so the job needs no permission, network endpoint or library for it. Outside a deployment none are printed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from model_code.sentiment.ranks import Ranks

NAMESPACE = "Torchlift"
UNITS = {
    "TrainingLoss": "None",
    "SamplesPerSecond": "Count/Second",
    "ProgressPercent": "Percent",
    "ValidationMacroRecall": "None",
}
# CloudWatch keeps one value a minute.
METRICS_EVERY_S = 60.0


class Progress:
    """Measures and prints, on the first rank alone. `seconds` is the time spent in steps, over all attempts."""

    def __init__(self, *, ranks: Ranks, epochs: int, total_steps: int, every_s: float, seconds: float) -> None:
        self._ranks, self._epochs, self._total_steps, self._every_s = ranks, epochs, total_steps, every_s
        self._finished = seconds
        self._started = self._metrics_at = time.monotonic()
        self._running = False
        self._steps = self._samples = 0

    @property
    def seconds(self) -> float:
        """Time spent in steps so far."""
        return self._finished + (time.monotonic() - self._started if self._running else 0.0)

    def start(self) -> None:
        """Steps begin, or begin again after something else."""
        self._started, self._running = time.monotonic(), True
        self._steps = self._samples = 0

    def add(self, samples: int) -> None:
        """One more step, over so many sentences."""
        self._steps += 1
        self._samples += samples

    def due(self) -> bool:
        """Whether it is time for a line."""
        return self._ranks.first and time.monotonic() - self._started >= self._every_s

    def report(self, *, epoch: int, step: int, loss: float, learning_rate: float, pause: bool = False) -> None:
        """A line about the steps since the last one; `epoch` and `step` count from 1; with `pause` no step follows."""
        now = time.monotonic()
        elapsed = max(now - self._started, 1e-9)
        pace = self._samples / elapsed
        left = elapsed / max(self._steps, 1) * (self._total_steps - step)
        self._ranks.print(
            f"epoch {epoch}/{self._epochs}  step {step}/{self._total_steps}  loss {loss:.3f}  "
            f"learning rate {learning_rate:.1e}  {pace:,.0f} samples/s  {duration(left)} left"
        )
        if pause or now - self._metrics_at >= METRICS_EVERY_S:
            self._metrics_at = now
            percent = 100 * step / self._total_steps
            self.metrics({"TrainingLoss": loss, "SamplesPerSecond": pace, "ProgressPercent": percent})
        self._finished += elapsed
        self.start()
        self._running = not pause

    def metrics(self, values: Mapping[str, float]) -> None:
        """Print values of UNITS for CloudWatch, inside a deployment."""
        deployment = os.environ.get("TORCHLIFT_DEPLOYMENT")
        if deployment:
            dimensions = {"Deployment": deployment, "Job": os.environ.get("TORCHLIFT_JOB", "train")}
            self._ranks.print(embedded_metrics(values, dimensions=dimensions, at=time.time()))


def embedded_metrics(values: Mapping[str, float], *, dimensions: Mapping[str, str], at: float) -> str:
    """One line in the embedded metric format. `at` is in seconds since 1970.

    It begins with `{"_aws"`, by which the job's scripts leave it out of what people are shown.
    """
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in values],
    }
    rounded = {name: round(value, 6) for name, value in values.items()}
    head = {"_aws": {"Timestamp": int(at * 1000), "CloudWatchMetrics": [directive]}}
    return json.dumps({**head, **dimensions, **rounded}, allow_nan=False)


def duration(seconds: float) -> str:
    """Seconds below two minutes, minutes below two hours, then hours and minutes."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
