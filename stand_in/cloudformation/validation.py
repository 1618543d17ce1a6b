"""What is refused before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stand_in.cloudformation.engine import stack_names
from stand_in.cloudformation.graph import dependencies
from stand_in.cloudformation.intrinsics import VARIABLE, Resolver
from stand_in.cloudformation.registry import check_properties
from stand_in.cloudformation.stacks import Stack
from stand_in.cloudformation.template import ResourceSpec, Template, TemplateError


def check(stack: Stack, template: Template, resolver: Resolver) -> dict[str, ResourceSpec]:
    """The resources whose condition holds. Raises TemplateError for what AWS, or the stand-in, refuses of them."""
    _check_names(template, set(resolver.pseudo) | {"AWS::NoValue"})
    active = {name: template.resources[name] for name in stack_names(template, resolver)}
    for name, spec in active.items():
        check_properties(name, spec.type, spec.properties)
    dependencies(active)
    moved = [name for name, held in stack.resources.items() if name in active and active[name].type != held.type]
    if moved:
        raise TemplateError(
            "Update of resource type is not permitted. The new template modifies resource type of the following "
            f"resources: {sorted(moved)}"
        )
    return active


def _check_names(template: Template, pseudo: set[str]) -> None:
    """Everything that is referred to is declared."""
    resources = set(template.resources)
    known = resources | set(template.parameters) | pseudo
    for name, spec in template.resources.items():
        missing = set(_names(spec.properties)) - known | set(spec.depends_on) - resources
        if missing:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies {sorted(missing)} in the Resources block of "
                f"the template (asked for by {name})"
            )
    for name, output in template.outputs.items():
        missing = set(_names(output)) - known
        if missing:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies {sorted(missing)} in the Outputs block of "
                f"the template (asked for by {name})"
            )


def _names(value: Any) -> Iterator[str]:
    """Logical ids, parameters and pseudo parameters that a value refers to."""
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key == "Ref" and isinstance(item, str) and len(value) == 1:
                yield item
            elif key == "Fn::GetAtt":
                yield item[0] if isinstance(item, list) else item.split(".")[0]
            elif key == "Fn::Sub":
                text, own = item if isinstance(item, list) else (item, {})
                used = {match.strip() for match in VARIABLE.findall(text)} - set(own)
                yield from (name if name.startswith("AWS::") else name.split(".")[0] for name in used)
                yield from _names(own)
            else:
                yield from _names(item)
