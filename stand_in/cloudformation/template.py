"""A CloudFormation template, read from JSON or YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import yaml  # type: ignore[import-untyped]

SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion",
        "Conditions",
        "Description",
        "Mappings",
        "Metadata",
        "Outputs",
        "Parameters",
        "Resources",
        "Rules",
    }
)
RESOURCE_KEYS = frozenset(
    {
        "Type",
        "Properties",
        "DependsOn",
        "Condition",
        "Metadata",
        "DeletionPolicy",
        "UpdateReplacePolicy",
        "CreationPolicy",
        "UpdatePolicy",
    }
)


class TemplateError(Exception):
    """A template or stack operation that AWS would refuse with a ValidationError."""


@dataclass(frozen=True, kw_only=True)
class ResourceSpec:
    """One entry of `Resources`, as written."""

    logical_id: str
    type: str
    properties: dict[str, Any]
    depends_on: tuple[str, ...]
    condition: str | None
    deletion_policy: str
    replace_policy: str
    creation_policy: dict[str, Any]
    update_policy: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Template:
    """A template's sections, as written."""

    text: str
    document: dict[str, Any]
    resources: dict[str, ResourceSpec]
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)
    mappings: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)


def parse_template(text: str) -> Template:
    """Read a template. Raises TemplateError, naming what is wrong."""
    document = _load(text)
    if not isinstance(document, dict) or not document.get("Resources"):
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    unknown = set(document) - SECTIONS
    if unknown:
        raise TemplateError(f"Invalid template property or properties {sorted(unknown)}")
    return Template(
        text=text,
        document=document,
        resources={logical: _resource(logical, spec) for logical, spec in document["Resources"].items()},
        parameters=document.get("Parameters", {}),
        conditions=document.get("Conditions", {}),
        mappings=document.get("Mappings", {}),
        outputs=document.get("Outputs", {}),
    )


def _resource(logical_id: str, spec: dict[str, Any]) -> ResourceSpec:
    if not isinstance(spec, dict) or "Type" not in spec:
        raise TemplateError(f"Template format error: [/Resources/{logical_id}] Every resource must have a Type.")
    unknown = set(spec) - RESOURCE_KEYS
    if unknown:
        raise TemplateError(f"Invalid template resource property {sorted(unknown)} of {logical_id}")
    depends_on = spec.get("DependsOn", ())
    return ResourceSpec(
        logical_id=logical_id,
        type=spec["Type"],
        properties=spec.get("Properties") or {},
        depends_on=(depends_on,) if isinstance(depends_on, str) else tuple(depends_on),
        condition=spec.get("Condition"),
        deletion_policy=spec.get("DeletionPolicy", "Delete"),
        replace_policy=spec.get("UpdateReplacePolicy", "Delete"),
        creation_policy=spec.get("CreationPolicy") or {},
        update_policy=spec.get("UpdatePolicy") or {},
    )


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise TemplateError(f"Template format error: {error}") from None


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML's safe loader, which also knows `!Ref`, `!Sub` and the other short forms."""


def _short_form(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    return {name: value}


def _plain_date(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.add_multi_constructor("!", _short_form)
# 2010-09-09 and 2012-10-17 are versions, not dates.
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _plain_date)
