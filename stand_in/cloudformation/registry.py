"""What a resource provider is, and the table of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from stand_in.cloudformation.template import TemplateError

Properties = dict[str, Any]


class ResourceFailed(Exception):
    """A resource operation that AWS would fail; the text is the reason that the stack's events show."""


class Refused(ResourceFailed):
    """Refused before anything was done: a rollback has nothing to put back."""


@dataclass(frozen=True, kw_only=True)
class Created:
    """A resource that exists: what Ref and GetAtt give."""

    physical_id: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Context:
    """What a provider may use while it works on one stack."""

    region: str
    account: str
    stack_name: str
    stack_id: str
    base_url: str
    client: Callable[[str], Any]
    invoke_lambda: Callable[[str, Mapping[str, Any]], Any]
    mailbox: Any
    cancelled: threading.Event
    generate_name: Callable[[str], str]
    logical_id: str = ""
    resource_type: str = ""
    creation_policy: Mapping[str, Any] = field(default_factory=dict)
    update_policy: Mapping[str, Any] = field(default_factory=dict)
    signals: str = ""
    """Address of the box in which SignalResource puts what is said to this resource; empty when it awaits nothing."""
    made: Callable[[str], None] = lambda _: None
    """Providers tell the physical id as soon as something exists: what fails after that is taken back all the same."""


class Resource:
    """Base of all providers. Properties are CloudFormation's, resolved; the service is called through boto3."""

    type_name: ClassVar[str]
    properties: ClassVar[frozenset[str]]
    """Accepted top-level properties; any other fails the stack."""
    replace_on: ClassVar[frozenset[str]] = frozenset()
    """Properties whose change makes a new resource."""
    renames: ClassVar[bool] = False
    """Whether an update may give the resource another id, which makes the former one a resource to delete."""

    def with_tags(self, props: Properties, tags: Mapping[str, str]) -> Properties:
        """Properties with the stack's tags, as CloudFormation passes them on; the resource's own win."""
        if not tags or "Tags" not in self.properties:
            return props
        own = props.get("Tags", [])
        given = {tag["Key"] for tag in own}
        more = [{"Key": key, "Value": value} for key, value in tags.items() if key not in given]
        return {**props, "Tags": [*own, *more]}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        """Make the resource."""
        raise NotImplementedError

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        """Change the resource in place; returns what Ref and GetAtt give from now on."""
        raise Refused(f"{self.type_name} cannot change {sorted(changed(old, new))} in place")

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        """Remove the resource; one that is gone already is no error."""
        raise NotImplementedError

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        """What the service holds, in the shape of CloudFormation's properties."""
        raise NotImplementedError


RESOURCES: dict[str, Resource] = {}


def register(provider: type[Resource]) -> type[Resource]:
    """Class decorator: make the provider answer for its type."""
    RESOURCES[provider.type_name] = provider()
    return provider


def provider_of(type_name: str) -> Resource:
    """The provider of a type. Raises TemplateError for a type that the stand-in does not know."""
    if type_name.startswith("Custom::"):
        type_name = "AWS::CloudFormation::CustomResource"
    try:
        return RESOURCES[type_name]
    except KeyError:
        raise TemplateError(f"the stand-in has no resource type {type_name}: nothing is skipped here") from None


def check_properties(logical_id: str, type_name: str, names: Mapping[str, Any]) -> None:
    """Raise TemplateError when the stand-in's type does not know one of the properties."""
    provider = provider_of(type_name)
    if type_name.startswith("Custom::") or type_name == "AWS::CloudFormation::CustomResource":
        return
    unknown = set(names) - provider.properties
    if unknown:
        raise TemplateError(f"the stand-in's {type_name} does not know {sorted(unknown)} of {logical_id}")


def changed(old: Properties, new: Properties) -> set[str]:
    """Top-level properties that differ."""
    return {key for key in {*old, *new} if old.get(key) != new.get(key)}
