"""Scaling activities of Auto Scaling groups, newest first, as DescribeScalingActivities lists them."""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

_LOCK = threading.Lock()
_ACTIVITIES: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)


def add(
    account: str,
    region: str,
    *,
    group_name: str,
    group_arn: str,
    description: str,
    cause: str,
    status: str,
    message: str = "",
) -> dict[str, Any]:
    """Record a finished activity; `status` is `Successful` or `Failed`, `message` why it failed."""
    now = datetime.now(UTC)
    activity = {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": group_name,
        "AutoScalingGroupARN": group_arn,
        "Description": description,
        "Cause": f"At {now:%Y-%m-%dT%H:%M:%SZ} {cause}",
        "StartTime": now,
        "EndTime": now,
        "StatusCode": status,
        "Progress": 100,
        "Details": "{}",
    }
    if message:
        activity["StatusMessage"] = message
    with _LOCK:
        _ACTIVITIES[account, region].insert(0, activity)
    return activity


def activities_of(account: str, region: str, group_name: str | None) -> list[dict[str, Any]]:
    """The activities of one group, or of all when no name is given."""
    with _LOCK:
        found = list(_ACTIVITIES[account, region])
    return [one for one in found if group_name in (None, "", one["AutoScalingGroupName"])]
