"""Small conversions between CloudFormation's property shapes and those of the service APIs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

Tags = list[dict[str, str]]


def pick(props: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the named properties that are set."""
    return {name: props[name] for name in names if name in props}


def lower_camel(value: Any) -> Any:
    """Keys with a small first letter, as CodeBuild's and ECR's APIs have them; deep."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: lower_camel(item) for key, item in value.items()}
    return [lower_camel(item) for item in value] if isinstance(value, list) else value


def upper_camel(value: Any) -> Any:
    """The reverse of lower_camel."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: upper_camel(item) for key, item in value.items()}
    return [upper_camel(item) for item in value] if isinstance(value, list) else value


def document(value: Any) -> str:
    """A policy as JSON text."""
    return value if isinstance(value, str) else json.dumps(value)


def own_tags(tags: Iterable[Mapping[str, str]]) -> Tags:
    """Tags without those that AWS adds, sorted by key, in CloudFormation's shape."""
    found = [
        {"Key": str(tag.get("Key", tag.get("key"))), "Value": str(tag.get("Value", tag.get("value")))} for tag in tags
    ]
    return sorted((tag for tag in found if not tag["Key"].startswith("aws:")), key=lambda tag: tag["Key"])


def tag_map(props: Mapping[str, Any]) -> dict[str, str]:
    """CloudFormation's list of tags as a dictionary."""
    return {tag["Key"]: tag["Value"] for tag in props.get("Tags", ())}


def tag_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], Tags]:
    """Keys of the tags that an update takes away, and all tags that it leaves."""
    before, after = tag_map(old), tag_map(new)
    return sorted(set(before) - set(after)), [{"Key": key, "Value": value} for key, value in after.items()]


def unless_gone(call: Callable[[], Any], *codes: str) -> Any:
    """Run `call`; an error that says that the thing does not exist counts as done."""
    try:
        return call()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in codes or "NotFound" in code or "NoSuch" in code or code == "ResourceNotFoundException":
            return None
        raise
