"""What moto knows of an Auto Scaling group that runs jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moto.autoscaling.models import FakeAutoScalingGroup, autoscaling_backends

from stand_in.access.record import role_of_profile
from stand_in.environment import ACCOUNT

JOB_TAG = "torchlift:job"
FLEET_JOB = "question-answering-fleet"
"""The one group that runs for good: `fleets` follows it, and `instances` all others."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group as it is at this moment; `instances` are those that moto counts to it."""

    name: str
    arn: str
    job: str
    desired: int
    instances: tuple[str, ...]
    user_data: str
    role: str
    """Of the instance profile; empty without one."""
    instance_type: str
    target_groups: tuple[str, ...]
    """ARNs of those in which it registers its instances."""


def read(region: str, name: str) -> Group | None:
    """The group, or None when it is gone or runs no job."""
    found: FakeAutoScalingGroup | None = autoscaling_backends[ACCOUNT][region].autoscaling_groups.get(name)
    job = _job(found) if found is not None else None
    if found is None or job is None:
        return None
    return Group(
        name=name,
        arn=found.arn,
        job=job,
        desired=found.desired_capacity or 0,
        instances=tuple(state.instance.id for state in found.instance_states),
        user_data=str(found.user_data or ""),
        role=_role(found),
        instance_type=str(found.instance_type or ""),
        target_groups=tuple(found.target_group_arns or ()),
    )


def names(region: str) -> list[str]:
    """Names of all groups of a region, of jobs or not."""
    return list(autoscaling_backends[ACCOUNT][region].autoscaling_groups)


def zone_and_subnet(region: str, instance_id: str) -> dict[str, str]:
    """The `Details` of the instance's events."""
    instance: Any = autoscaling_backends[ACCOUNT][region].ec2_backend.get_instance(instance_id)
    return {"Availability Zone": str(instance.placement.zone), "Subnet ID": str(instance.subnet_id or "")}


def _job(group: FakeAutoScalingGroup) -> str | None:
    """The tag of the group, or of the instances that its launch template makes."""
    for tag in group.tags:
        if tag["key" if "key" in tag else "Key"] == JOB_TAG:
            return str(tag["value" if "value" in tag else "Value"])
    found = group.instance_tags.get(JOB_TAG)
    return str(found) if found else None


def _role(group: FakeAutoScalingGroup) -> str:
    template: Any = group.ec2_launch_template
    if template is None:
        return ""
    profile = template.get_version(group.launch_template_version).data.get("IamInstanceProfile", {})
    return role_of_profile(str(profile.get("Arn") or profile.get("Name") or ""))
