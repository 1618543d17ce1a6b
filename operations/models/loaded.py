"""What CloudWatch tells of the models in an endpoint's memory: how many, never which (no metric is a model's)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import is_denied, sentence
from operations.models.build import WORKLOAD
from settings import names

MINUTES = 15
INSTANCE, INVOCATION = "/aws/sagemaker/Endpoints", "AWS/SageMaker"
"""The namespaces of SageMaker's metrics for instances and for invocations."""


def lines(account: Account) -> Iterator[str]:
    """Sentences for people, without failing for want of a permission."""
    endpoint = account.parameter(WORKLOAD, "endpoint")
    if endpoint is None:
        return
    try:
        loaded, hits = _figures(account, endpoint)
    except ClientError as error:
        if not is_denied(error):
            raise
        yield f"Loaded: {sentence(error)}"
        return
    if loaded is None:
        yield f"Loaded: {endpoint} told nothing in the last {MINUTES} minutes; a model is loaded when first asked."
        return
    found = "" if hits is None else f"; {hits:.0%} of the requests found theirs loaded (ModelCacheHit)"
    yield (
        f"Loaded: up to {loaded:.0f} models on one instance in the last {MINUTES} minutes (LoadedModelCount){found}. "
        "Which ones, SageMaker does not tell."
    )


def _figures(account: Account, endpoint: str) -> tuple[float | None, float | None]:
    """The most models that one instance had loaded, and the share of requests whose model was there."""
    until = datetime.now(UTC)
    wanted = {
        "loaded": (INSTANCE, "LoadedModelCount", "Maximum"),
        "hits": (INVOCATION, "ModelCacheHit", "Sum"),
        "requests": (INVOCATION, "ModelCacheHit", "SampleCount"),
    }
    dimensions = [
        {"Name": "EndpointName", "Value": endpoint},
        {"Name": "VariantName", "Value": names.MAIN_VARIANT},
    ]
    queries: list[dict[str, Any]] = [
        {
            "Id": id,
            "MetricStat": {
                "Metric": {"Namespace": namespace, "MetricName": metric, "Dimensions": dimensions},
                "Period": 60,
                "Stat": statistic,
            },
        }
        for id, (namespace, metric, statistic) in wanted.items()
    ]
    answer = account.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=until - timedelta(minutes=MINUTES), EndTime=until
    )
    values = {one["Id"]: one["Values"] for one in answer["MetricDataResults"]}
    requests = sum(values.get("requests", []))
    return max(values.get("loaded", []), default=None), sum(values["hits"]) / requests if requests else None
