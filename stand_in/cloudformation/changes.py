"""Change sets: what an update would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stand_in.cloudformation.intrinsics import Resolver
from stand_in.cloudformation.registry import ResourceFailed, changed, provider_of
from stand_in.cloudformation.stacks import Stack, now
from stand_in.cloudformation.template import ResourceSpec, Template, TemplateError


@dataclass(kw_only=True)
class ChangeSet:
    """A planned operation on a stack."""

    name: str
    id: str
    stack: Stack
    kind: str
    template: Template
    params: dict[str, Any]
    resolved: dict[str, Any] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)
    status: str = "CREATE_COMPLETE"
    execution_status: str = "AVAILABLE"
    reason: str = ""
    created_at: datetime = field(default_factory=now)


def describe_changes(stack: Stack, active: Mapping[str, ResourceSpec], resolver: Resolver) -> list[dict[str, Any]]:
    """The `Changes` of DescribeChangeSet, with replacement told from what is known before execution."""
    changes = []
    for name, spec in active.items():
        old = stack.resources.get(name)
        if old is None:
            changes.append(_change("Add", name, spec.type))
            continue
        if old.type != spec.type:
            changes.append(_change("Modify", name, spec.type, physical_id=old.physical_id, replacement="True"))
            continue
        before = (
            stack.template.resources[name].properties if stack.template and name in stack.template.resources else {}
        )
        try:
            differing = changed(old.properties, resolver.resolve(spec.properties))
        except (KeyError, ResourceFailed, TemplateError):  # it refers to a resource that does not exist yet
            differing = changed(before, spec.properties)
        if differing:
            replaced = bool(differing & provider_of(spec.type).replace_on)
            changes.append(
                _change(
                    "Modify", name, spec.type, physical_id=old.physical_id, replacement="True" if replaced else "False"
                )
            )
    for name, old in stack.resources.items():
        if name not in active:
            changes.append(_change("Remove", name, old.type, physical_id=old.physical_id))
    return changes


def _change(
    action: str, logical_id: str, type_name: str, *, physical_id: str | None = None, replacement: str | None = None
) -> dict[str, Any]:
    return {
        "Type": "Resource",
        "ResourceChange": {
            "Action": action,
            "LogicalResourceId": logical_id,
            "PhysicalResourceId": physical_id,
            "ResourceType": type_name,
            "Replacement": replacement,
            "Scope": ["Properties"] if action == "Modify" else [],
            "Details": [],
        },
    }
