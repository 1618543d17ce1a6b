"""A resource's properties against the API's own description of the call that CloudFormation makes with them.

botocore's validator checks types and required members; its service models also hold enums, lengths, patterns and
ranges, which are checked here. `api_operations.toml` says which call takes a resource type's properties.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import regex  # type: ignore[import-untyped]
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

TABLE = Path(__file__).with_name("api_operations.toml")
SURROGATES = (r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")
"""Application Auto Scaling writes the characters beyond 16 bits as Java does."""
NUMBERS = {"integer": int, "long": int, "float": float, "double": float}


class NoOperation(KeyError):
    """The table has no entry for a resource type."""


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """How the properties of one resource type become members of calls.

    `properties`: {path of a property, such as `SecurityGroupEgress[].CidrIp`: `Member.Path`, or
    `service.Operation:Member.Path` for another call}; `own`: properties that no call takes, and why.
    """

    call: str
    properties: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    generated: tuple[str, ...] = ()
    """Required members that CloudFormation fills in."""


@cache
def mappings() -> dict[str, Mapping]:
    """The table, by resource type."""
    rows = tomllib.loads(TABLE.read_text())
    return {kind: Mapping(**{**row, "generated": tuple(row.get("generated", ()))}) for kind, row in rows.items()}


@cache
def operation(call: str) -> OperationModel:
    """`service.Operation` in botocore's model."""
    service, _, name = call.partition(".")
    return botocore.session.get_session().get_service_model(service).operation_model(name)


def mistakes(kind: str, properties: dict[str, Any]) -> list[str]:
    """What the API would refuse of resolved properties, each with the property's path. Raises NoOperation."""
    if kind not in mappings():
        raise NoOperation(f"{kind}: name the call that takes its properties in {TABLE.name}")
    mapping = mappings()[kind]
    shape = operation(mapping.call).input_shape
    assert isinstance(shape, StructureShape)
    return list(_structure(mapping, shape, properties, ""))


def _structure(mapping: Mapping, shape: StructureShape, value: dict[str, Any], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if here in mapping.own:
            continue
        call, _, members = mapping.properties.get(here, "").rpartition(":")
        base: Shape | None = operation(call).input_shape if call else shape
        names = members.split(".") if members else [_member(shape, key)]
        if not call:
            seen.add(names[0].removesuffix("[]"))
        target = _follow(base, names)
        if target is None:
            yield f"{here}: no such member in {call or mapping.call}"
        else:
            yield from _value(mapping, target, item, here)
    for name in shape.required_members:
        if name not in seen and (f"{path}.{name}" if path else name) not in mapping.generated:
            yield f"{path or 'Properties'}: lacks {name}, which {mapping.call} requires"


def _member(shape: StructureShape, key: str) -> str:
    """CloudFormation's property names are the API's, or differ in the first letter's case."""
    return key if key in shape.members else key[:1].lower() + key[1:]


def _follow(shape: Shape | None, names: list[str]) -> Shape | None:
    for name in names:
        if isinstance(shape, ListShape):
            shape = shape.member
        if not isinstance(shape, StructureShape):
            return None
        shape = shape.members.get(name.removesuffix("[]"))
        if name.endswith("[]") and isinstance(shape, ListShape):
            shape = shape.member
    return shape


def _value(mapping: Mapping, shape: Shape, value: Any, path: str) -> Iterator[str]:
    if isinstance(shape, StructureShape):
        if isinstance(value, dict):
            yield from _structure(mapping, shape, value, path)
        else:
            yield f"{path}: {value!r} is no structure"
    elif isinstance(shape, ListShape):
        if isinstance(value, list):
            yield from _bounds(shape, len(value), path, "items")
            for item in value:
                yield from _value(mapping, shape.member, item, f"{path}[]")
        else:
            yield f"{path}: {value!r} is no list"
    elif isinstance(shape, MapShape):
        # Tags are a map in some APIs, and always a list in CloudFormation.
        if isinstance(value, list) and path.endswith("Tags"):
            value = {item["Key"]: item["Value"] for item in value}
        if isinstance(value, dict):
            for key, item in value.items():
                yield from _value(mapping, shape.key, key, f"{path} key {key}")
                yield from _value(mapping, shape.value, item, f"{path}.{key}")
        else:
            yield f"{path}: {value!r} is no map"
    else:
        yield from _scalar(shape, value, path)


def _scalar(shape: Shape, value: Any, path: str) -> Iterator[str]:
    kind = shape.type_name
    if kind == "string" and isinstance(value, dict) and path.endswith(("Document", "Policy", "Pattern")):
        value = json.dumps(value)
    if isinstance(value, (dict, list)):
        yield f"{path}: {value!r} is no {kind}"
    elif kind == "boolean":
        if str(value).lower() not in ("true", "false"):
            yield f"{path}: {value!r} is no boolean"
    elif kind in NUMBERS:
        try:
            number = NUMBERS[kind](str(value))
        except ValueError:
            yield f"{path}: {value!r} is no {kind}"
        else:
            yield from _bounds(shape, number, path, "in value")
    elif kind == "string":
        yield from _text(shape, str(value).lower() if isinstance(value, bool) else str(value), path)


def _text(shape: Shape, text: str, path: str) -> Iterator[str]:
    yield from _bounds(shape, len(text), path, "characters")
    allowed = shape.metadata.get("enum")
    if allowed and text not in allowed:
        yield f"{path}: {text!r} is none of {', '.join(allowed)}"
    pattern = shape.metadata.get("pattern")
    if pattern and not regex.fullmatch(pattern.replace(*SURROGATES), text):
        yield f"{path}: {text!r} does not match {pattern}"


def _bounds(shape: Shape, size: float, path: str, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if (low is not None and size < low) or (high is not None and size > high):
        yield f"{path}: {size} {what}, not {low if low is not None else ''} to {high if high is not None else ''}"
