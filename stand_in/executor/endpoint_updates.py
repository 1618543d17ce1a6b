"""What an UpdateEndpoint call says beside its configuration: what is retained, how traffic moves, what undoes it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends

from stand_in.environment import ACCOUNT

RETAINED = {"DesiredInstanceCount": ("CurrentInstanceCount", "DesiredInstanceCount"),
            "DesiredWeight": ("CurrentWeight", "DesiredWeight")}  # fmt: skip
"""What RetainAllVariantProperties keeps, by the name under which the call may exclude it."""
TIME_SCALE = 1 / 600
"""Of the stand-in's seconds to AWS's, where an update only waits."""
WATCH_SECONDS = 0.1
ROLLED_BACK = "Deployment was rolled back"
"""How the FailureReason of an update begins that alarms have undone."""


def kept(old: Sequence[Mapping[str, Any]], config: Any, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """DescribeEndpoint's variants of a new configuration, with what the call retains of the old ones of that name."""
    new = [_shown(one) for one in config.production_variants]
    if not request.get("RetainAllVariantProperties"):
        return new
    names = [name for kind, names in RETAINED.items() if kind not in _excluded(request) for name in names]
    before = {one["VariantName"]: one for one in old}
    return [
        {**one, **{name: value for name, value in before.get(one["VariantName"], {}).items() if name in names}}
        for one in new
    ]


def kept_capture(old: Mapping[str, Any], config: Any, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The DataCaptureConfig in force after the call: the old one's where the call retains it."""
    retained = request.get("RetainAllVariantProperties") and "DataCaptureConfig" not in _excluded(request)
    return old if retained else config.data_capture_config or {}


def _shown(variant: Mapping[str, Any]) -> dict[str, Any]:
    count, weight = variant.get("InitialInstanceCount"), float(variant.get("InitialVariantWeight", 1))
    counts = {} if count is None else {"CurrentInstanceCount": count, "DesiredInstanceCount": count}
    return {"VariantName": variant["VariantName"], **counts, "CurrentWeight": weight, "DesiredWeight": weight}


def _excluded(request: Mapping[str, Any]) -> set[str]:
    return {one["VariantPropertyType"] for one in request.get("ExcludeRetainedVariantProperties") or ()}


def shares(request: Mapping[str, Any], *, instances: int) -> tuple[list[float], float]:
    """The new fleet's share of the traffic, part after part, and AWS's seconds after each.

    :param instances: of the smallest variant
    """
    policy = (request.get("DeploymentConfig") or {}).get("BlueGreenUpdatePolicy") or {}
    routing = policy.get("TrafficRoutingConfiguration") or {}
    bake = float(routing.get("WaitIntervalInSeconds") or 0)
    if routing.get("Type") == "CANARY":
        return [_share(routing["CanarySize"], instances), 1.0], bake
    if routing.get("Type") == "LINEAR":
        step = _share(routing["LinearStepSize"], instances)
        return [*(part * step for part in range(1, math.ceil(round(1 / step, 6)))), 1.0], bake
    return [1.0], bake


def _share(size: Mapping[str, Any], instances: int) -> float:
    whole = 100 if size["Type"] == "CAPACITY_PERCENT" else instances
    return min(1.0, float(size["Value"]) / max(1, whole))


def watch(region: str, request: Mapping[str, Any], *, seconds: float, cancelled: threading.Event) -> list[str]:
    """Wait AWS's `seconds`, scaled, as long as no alarm of the call rings; returns those that do."""
    deadline = time.monotonic() + seconds * TIME_SCALE
    while not (ringing := alarms_ringing(region, request)):
        left = deadline - time.monotonic()
        if left <= 0 or cancelled.wait(min(left, WATCH_SECONDS)):
            break
    return ringing


def alarms_ringing(region: str, request: Mapping[str, Any]) -> list[str]:
    """The call's AutoRollbackConfiguration alarms that are in ALARM state now."""
    deployment = request.get("DeploymentConfig") or {}
    alarms = (deployment.get("AutoRollbackConfiguration") or {}).get("Alarms") or ()
    known = cloudwatch_backends[ACCOUNT][region].alarms
    names = [str(one["AlarmName"]) for one in alarms]
    return [name for name in names if name in known and known[name].state_value == "ALARM"]
