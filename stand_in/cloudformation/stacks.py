"""What the stand-in remembers of a stack: its resources, events, parameters and outputs."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stand_in.cloudformation.template import Template


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


@dataclass(kw_only=True)
class ResourceState:
    """A resource as it was last deployed: resolved properties, and what Ref and GetAtt give.

    `properties` carry the stack's tags, `declared` is the template's own part.
    """

    logical_id: str
    type: str
    physical_id: str = ""
    properties: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    deletion_policy: str = "Delete"
    replace_policy: str = "Delete"
    needs: set[str] = field(default_factory=set)
    creation_policy: dict[str, Any] = field(default_factory=dict)
    update_policy: dict[str, Any] = field(default_factory=dict)
    new: bool = False
    """Made by the operation that made this state, be it for the first time or in another one's place."""
    status: str = ""
    reason: str = ""
    changed_at: datetime = field(default_factory=now)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of a stack's history."""

    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str
    at: datetime = field(default_factory=now)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(kw_only=True)
class Stack:
    """One stack. `parameters` are as given, `resolved` what Ref gives for them."""

    name: str
    id: str
    region: str
    account: str
    template: Template | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    resolved: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    capabilities: list[str] = field(default_factory=list)
    resources: dict[str, ResourceState] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    exports: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    status: str = "REVIEW_IN_PROGRESS"
    reason: str = ""
    created_at: datetime = field(default_factory=now)
    updated_at: datetime | None = None
    deleted_at: datetime | None = None
    protected: bool = False
    role_arn: str | None = None
    change_set_id: str | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    signals: dict[str, str] = field(default_factory=dict)
    """{logical id: box} of the resources that wait for SignalResource now."""

    def set_status(self, status: str, reason: str = "") -> None:
        """Change the stack's state and write it into its history."""
        self.status, self.reason = status, reason
        self.events.append(
            Event(
                logical_id=self.name,
                physical_id=self.id,
                type="AWS::CloudFormation::Stack",
                status=status,
                reason=reason,
            )
        )

    def set_resource(self, resource: ResourceState, status: str, reason: str = "") -> None:
        """Change a resource's state and write it into the stack's history."""
        resource.status, resource.reason, resource.changed_at = status, reason, now()
        self.events.append(
            Event(
                logical_id=resource.logical_id,
                physical_id=resource.physical_id,
                type=resource.type,
                status=status,
                reason=reason,
            )
        )
