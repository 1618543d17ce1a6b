"""Change sets: what an update would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stand_in.cloudformation.graph import deletion_order, dependencies, references
from stand_in.cloudformation.inputs import Inputs
from stand_in.cloudformation.intrinsics import Resolver
from stand_in.cloudformation.registry import ResourceFailed, changed, provider_of
from stand_in.cloudformation.stacks import Stack, now
from stand_in.cloudformation.template import ResourceSpec, TemplateError


@dataclass(kw_only=True)
class ChangeSet:
    """A planned operation on a stack."""

    name: str
    id: str
    stack: Stack
    kind: str
    inputs: Inputs
    changes: list[dict[str, Any]] = field(default_factory=list)
    status: str = "CREATE_COMPLETE"
    execution_status: str = "AVAILABLE"
    reason: str = ""
    created_at: datetime = field(default_factory=now)


def describe_changes(
    stack: Stack, active: Mapping[str, ResourceSpec], resolver: Resolver, tags: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The `Changes` of DescribeChangeSet, with replacement told from what is known before execution."""
    changes: dict[str, dict[str, Any]] = {}
    replaced: set[str] = set()
    for name in reversed(deletion_order(dependencies(active))):
        spec, old = active[name], stack.resources.get(name)
        if old is None:
            changes[name] = _change("Add", name, spec.type)
            continue
        create_only = provider_of(spec.type).replace_on
        differing = _differing(stack, spec, resolver, tags)
        # Whether a new resource's id differs from the old one's is known only once it exists.
        depending = {key for key, value in spec.properties.items() if references(value, replaced)}
        if not differing | depending:
            continue
        if differing & create_only:
            replacement = "True"
            replaced.add(name)
        else:
            replacement = "Conditional" if depending & create_only else "False"
        changes[name] = _change("Modify", name, spec.type, physical_id=old.physical_id, replacement=replacement)
    listed = [changes[name] for name in active if name in changes]
    gone = [old for name, old in stack.resources.items() if name not in active]
    return listed + [_change("Remove", old.logical_id, old.type, physical_id=old.physical_id) for old in gone]


def _differing(stack: Stack, spec: ResourceSpec, resolver: Resolver, tags: Mapping[str, str]) -> set[str]:
    old = stack.resources[spec.logical_id]
    try:
        props = provider_of(spec.type).with_tags(resolver.resolve(spec.properties), tags)
    except (ResourceFailed, TemplateError):  # it refers to a resource that does not exist yet
        held = stack.template.resources.get(spec.logical_id) if stack.template else None
        return changed(held.properties if held else {}, spec.properties)
    return changed(old.properties, props)


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
