"""One resource at a time: create, update, delete, with the events that tell of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Refused, ResourceFailed, provider_of
from stand_in.cloudformation.stacks import ResourceState, Stack
from stand_in.cloudformation.template import TemplateError

CANCELLED = "cancelled"
"""The text of a ResourceFailed of a provider that stopped because a sibling had failed."""


class OperationFailed(Exception):
    """A step that failed; the reason is in the stack's events."""


class Worker:
    """Does what the engine decides, for the resources of one stack."""

    def __init__(self, stack: Stack, context: Context) -> None:
        self._stack = stack
        self.context = context

    def create(self, state: ResourceState) -> None:
        """Make what `state.properties` say. Raises OperationFailed."""
        provider = provider_of(state.type)
        self._do(state, "CREATE", lambda: provider.create(self._for(state), state.logical_id, state.properties))

    def update(self, state: ResourceState, properties: dict[str, Any]) -> None:
        """Change a resource in place. Raises OperationFailed; `state` keeps the properties that were tried."""
        provider, old = provider_of(state.type), state.properties
        state.properties = properties

        def work() -> Created:
            made = provider.update(self._for(state), state.physical_id, old, properties)
            if made.physical_id != state.physical_id and not provider.renames:
                raise ResourceFailed(f"{state.type} changed its id from {state.physical_id} to {made.physical_id}")
            return made

        try:
            self._do(state, "UPDATE", work)
        except OperationFailed as error:
            if isinstance(error.__cause__, Refused):
                state.properties = old
            raise

    def delete(self, state: ResourceState, *, retain: bool = False) -> bool:
        """Remove a resource, or leave it where it is. False when that failed."""
        stack = self._stack
        if not state.physical_id:  # it never came to exist
            return True
        if retain:
            stack.set_resource(state, "DELETE_SKIPPED")
            return True
        stack.set_resource(state, "DELETE_IN_PROGRESS")
        try:
            provider_of(state.type).delete(self._for(state), state.physical_id, state.properties)
        except Exception as error:
            _explain(error)
            stack.set_resource(state, "DELETE_FAILED", str(error))
            return False
        stack.set_resource(state, "DELETE_COMPLETE")
        return True

    def failed(self, state: ResourceState, verb: str, error: Exception) -> OperationFailed:
        """Write down why a resource failed; returns what to raise."""
        _explain(error)
        reason = str(error)
        if self.context.cancelled.is_set() and reason == CANCELLED:
            reason = f"Resource {'update' if verb == 'UPDATE' else 'creation'} cancelled"
        self._stack.set_resource(state, f"{verb}_FAILED", reason)
        return OperationFailed(f"The following resource(s) failed to {verb.lower()}: [{state.logical_id}].")

    def _do(self, state: ResourceState, verb: str, work: Callable[[], Created]) -> None:
        self._stack.set_resource(state, f"{verb}_IN_PROGRESS")
        # It may be signalled exactly as long as this takes.
        if state.creation_policy or state.update_policy:
            self._stack.signals[state.logical_id] = self.context.mailbox.open("signals")
        try:
            made = work()
        except Exception as error:
            raise self.failed(state, verb, error) from error
        finally:
            self.context.mailbox.close(self._stack.signals.pop(state.logical_id, ""))
        state.physical_id, state.attributes = made.physical_id, made.attributes
        self._stack.set_resource(state, f"{verb}_COMPLETE")

    def _for(self, state: ResourceState) -> Context:
        def made(physical_id: str) -> None:
            state.physical_id = physical_id

        return replace(
            self.context,
            logical_id=state.logical_id,
            resource_type=state.type,
            creation_policy=state.creation_policy,
            update_policy=state.update_policy,
            signals=self._stack.signals.get(state.logical_id, ""),
            made=made,
        )


def _explain(error: Exception) -> None:
    """What no provider meant to raise is a fault of the stand-in, or an answer of a service: told in the log."""
    if not isinstance(error, (ResourceFailed, TemplateError)):
        traceback.print_exception(error)
