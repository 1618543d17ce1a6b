"""What an UpdateEndpoint call says beside its configuration: what is retained, and which alarms undo it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends

from stand_in.environment import ACCOUNT

RETAINED = {"DesiredInstanceCount": ("CurrentInstanceCount", "DesiredInstanceCount"),
            "DesiredWeight": ("CurrentWeight", "DesiredWeight")}  # fmt: skip
"""What RetainAllVariantProperties keeps, by the name under which the call may exclude it."""


def kept(
    old: Sequence[Mapping[str, Any]], new: Sequence[dict[str, Any]], request: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The variants of the new configuration, with what the call retains of the old ones of the same name."""
    if not request.get("RetainAllVariantProperties"):
        return list(new)
    excluded = {one["VariantPropertyType"] for one in request.get("ExcludeRetainedVariantProperties") or ()}
    names = [name for kind, names in RETAINED.items() if kind not in excluded for name in names]
    before = {one["VariantName"]: one for one in old}
    return [
        {**one, **{name: value for name, value in before.get(one["VariantName"], {}).items() if name in names}}
        for one in new
    ]


def alarms_ringing(region: str, request: Mapping[str, Any]) -> list[str]:
    """The call's AutoRollbackConfiguration alarms that are in ALARM state now."""
    deployment = request.get("DeploymentConfig") or {}
    alarms = (deployment.get("AutoRollbackConfiguration") or {}).get("Alarms") or ()
    known = cloudwatch_backends[ACCOUNT][region].alarms
    names = [str(one["AlarmName"]) for one in alarms]
    return [name for name in names if name in known and known[name].state_value == "ALARM"]
