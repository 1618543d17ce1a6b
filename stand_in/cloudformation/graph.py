"""Which resource needs which, and the order that follows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from stand_in.cloudformation.intrinsics import VARIABLE
from stand_in.cloudformation.template import ResourceSpec, TemplateError


def references(value: Any, known: Collection[str]) -> set[str]:
    """Logical ids among `known` that `value` refers to by Ref, GetAtt or Sub."""
    if isinstance(value, list):
        return set().union(*(references(item, known) for item in value)) if value else set()
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for key, item in value.items():
        if key == "Ref" and item in known:
            found.add(item)
        elif key == "Fn::GetAtt":
            name = item[0] if isinstance(item, list) else item.split(".")[0]
            found |= {name} & set(known)
        elif key == "Fn::Sub":
            text = item[0] if isinstance(item, list) else item
            found |= {match.strip().split(".")[0] for match in VARIABLE.findall(text)} & set(known)
            found |= references(item, known)
        else:
            found |= references(item, known)
    return found


def dependencies(resources: Mapping[str, ResourceSpec]) -> dict[str, set[str]]:
    """For each logical id, those that must exist before it. Raises TemplateError for a cycle."""
    needs = {
        logical: (references(spec.properties, resources) | set(spec.depends_on)) & set(resources)
        for logical, spec in resources.items()
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        raise TemplateError(f"Circular dependency between resources: {error.args[1]}") from None
    return needs


def deletion_order(needs: Mapping[str, set[str]]) -> list[str]:
    """Dependents first."""
    return list(reversed(list(TopologicalSorter(needs).static_order())))
