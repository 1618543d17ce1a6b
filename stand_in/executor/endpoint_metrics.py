"""What SageMaker tells CloudWatch of each invocation."""

from __future__ import annotations

from collections.abc import Mapping

from moto.cloudwatch.models import cloudwatch_backends

from stand_in.environment import ACCOUNT
from stand_in.executor.site import Site

NAMESPACE = "AWS/SageMaker"
INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"
LOADED = "LoadedModelCount"
MICROSECONDS = 1e6


def record(
    site: Site, *, region: str, endpoint: str, variant: str, status: int, model_s: float, overhead_s: float
) -> None:
    """Put one invocation's data points (SageMaker guide, "Endpoint invocation metrics").

    :param status: the container's HTTP status; 0 when it did not answer in time
    :param model_s: seconds that the container took
    :param overhead_s: seconds that everything else took
    """
    refused = 400 <= status < 500
    broken = status == 0 or status >= 500
    values = {
        "Invocations": (1.0, "None"),
        "Invocation4XXErrors": (float(refused), "None"),
        "Invocation5XXErrors": (float(broken), "None"),
        "InvocationModelErrors": (float(refused or broken), "None"),
        "ModelLatency": (model_s * MICROSECONDS, "Microseconds"),
        "OverheadLatency": (overhead_s * MICROSECONDS, "Microseconds"),
    }
    _put(site, region, endpoint, variant, NAMESPACE, values)


def record_models(site: Site, *, region: str, endpoint: str, variant: str, name: str, value: float) -> None:
    """Put one data point of a multi-model endpoint (SageMaker guide, "Multi-model endpoint model loading metrics").

    :param value: seconds for a name that ends in `Time`, else a number
    """
    namespace = INSTANCE_NAMESPACE if name == LOADED else NAMESPACE
    shown = (value * MICROSECONDS, "Microseconds") if name.endswith("Time") else (value, "None")
    _put(site, region, endpoint, variant, namespace, {name: shown})


def _put(
    site: Site, region: str, endpoint: str, variant: str, namespace: str, values: Mapping[str, tuple[float, str]]
) -> None:
    dimensions = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": variant}]
    data = [
        {"MetricName": name, "Value": value, "Unit": unit, "Dimensions": dimensions}
        for name, (value, unit) in values.items()
    ]
    with site.moto_lock:
        cloudwatch_backends[ACCOUNT][region].put_metric_data(namespace, data)
