"""Create, update, roll back and delete: the state machine of one stack operation.

Independent resources are worked on at the same time, as CloudFormation does: an order that only happens to be right,
because a DependsOn is missing, does not pass unnoticed for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from stand_in.cloudformation.graph import deletion_order, dependencies
from stand_in.cloudformation.intrinsics import Resolver
from stand_in.cloudformation.order import in_order
from stand_in.cloudformation.registry import Context, ResourceFailed, changed, provider_of
from stand_in.cloudformation.stacks import ResourceState, Stack, now
from stand_in.cloudformation.template import ResourceSpec, Template, TemplateError
from stand_in.cloudformation.worker import OperationFailed, Worker

FAILURES = (OperationFailed, TemplateError, ResourceFailed)


class Operation:
    """One operation on one stack. `resolver` and `context` make what is needed for the stack's region."""

    def __init__(
        self,
        *,
        stack: Stack,
        context: Context,
        resolver: Callable[[Stack, Template, Mapping[str, Any]], Resolver],
        check_exports: Callable[[Stack, Mapping[str, str]], None],
    ) -> None:
        self._stack = stack
        self._context = context
        self._make_resolver = resolver
        self._check_exports = check_exports
        self._worker = Worker(stack, context)
        self._replaced: list[ResourceState] = []

    # --- what the API starts ---------------------------------------------------------------------------------------

    def create(self, template: Template, resolved: Mapping[str, Any], *, rollback: bool = True) -> None:
        """A new stack; on failure everything made so far is deleted again."""
        stack = self._stack
        stack.set_status("CREATE_IN_PROGRESS", "User Initiated")
        stack.template = template
        try:
            self._apply(template, resolved, before={})
        except FAILURES as error:
            if not rollback:
                stack.set_status("CREATE_FAILED", str(error))
                return
            stack.set_status("ROLLBACK_IN_PROGRESS", f"{error} Rollback requested by user.")
            self._end_rollback(self._delete_all(on_create=True), "ROLLBACK")
            return
        stack.set_status("CREATE_COMPLETE")

    def update(self, template: Template, resolved: Mapping[str, Any], *, previous: Mapping[str, Any]) -> None:
        """An existing stack; on failure the old properties come back and what is new goes.

        `previous` are attributes of the stack (parameters, tags) from before the update, which come back too.
        """
        stack = self._stack
        stack.set_status("UPDATE_IN_PROGRESS", "User Initiated")
        stack.updated_at = now()
        before = dict(stack.resources)
        try:
            active = self._apply(template, resolved, before=before)
        except FAILURES as error:
            stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", str(error))
            self._roll_back(before)
            for name, value in previous.items():
                setattr(stack, name, value)
            return
        stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        removed = [state for name, state in before.items() if name not in active]
        self._clean_up(before, removed)
        for state in removed:
            stack.resources.pop(state.logical_id, None)
        stack.set_status("UPDATE_COMPLETE")

    def delete(self, *, retain: Iterable[str] = ()) -> None:
        """The whole stack, dependents first."""
        stack = self._stack
        stack.set_status("DELETE_IN_PROGRESS", "User Initiated")
        failures = self._delete_all(retain=frozenset(retain))
        if failures:
            names = ", ".join(state.logical_id for state in failures)
            stack.set_status("DELETE_FAILED", f"The following resource(s) failed to delete: [{names}].")
            return
        stack.exports, stack.imports, stack.outputs = {}, set(), {}
        stack.deleted_at = now()
        stack.set_status("DELETE_COMPLETE")

    # --- steps -----------------------------------------------------------------------------------------------------

    def _apply(
        self, template: Template, resolved: Mapping[str, Any], *, before: Mapping[str, ResourceState]
    ) -> set[str]:
        """Create and update everything, then outputs and exports; returns the active logical ids."""
        self._context.cancelled.clear()
        resolver = self._make_resolver(self._stack, template, resolved)
        active = {name: template.resources[name] for name in stack_names(template, resolver)}
        needs = dependencies(active)

        def work(name: str) -> None:
            self._one(active[name], needs[name], resolver, before.get(name))

        in_order(needs, work, cancelled=self._context.cancelled)
        self._finish(template, resolved, resolver)
        return set(active)

    def _one(self, spec: ResourceSpec, needs: set[str], resolver: Resolver, old: ResourceState | None) -> None:
        stack, worker, provider = self._stack, self._worker, provider_of(spec.type)
        state = ResourceState(
            logical_id=spec.logical_id,
            type=spec.type,
            deletion_policy=spec.deletion_policy,
            replace_policy=spec.replace_policy,
            needs=needs,
            creation_policy=spec.creation_policy,
            update_policy=spec.update_policy,
        )
        try:
            declared = resolver.resolve(spec.properties)
        except (TemplateError, ResourceFailed) as error:
            # Nothing was tried on the resource itself: an old one stays as it is.
            raise worker.failed(state, "UPDATE" if old else "CREATE", error) from error
        state.declared, props = declared, provider.with_tags(declared, stack.tags)
        differing = changed(old.properties, props) if old is not None else set()
        if old is not None and not differing & provider.replace_on:
            state.physical_id, state.attributes = old.physical_id, old.attributes
            state.properties, state.status = old.properties, old.status
            stack.resources[spec.logical_id] = state
            if differing:
                worker.update(state, props)
                if state.physical_id != old.physical_id:  # a custom resource that answered with a new id
                    self._replaced.append(old)
            return
        state.properties, state.new = props, True
        if old is not None:
            self._replaced.append(old)
            stack.set_resource(state, "UPDATE_IN_PROGRESS", "Requested update requires the creation of a new resource")
        stack.resources[spec.logical_id] = state
        worker.create(state)

    def _finish(self, template: Template, resolved: Mapping[str, Any], resolver: Resolver) -> None:
        outputs, exports = {}, {}
        for name, output in template.outputs.items():
            if "Condition" in output and not resolver.condition(output["Condition"]):
                continue
            value = str(resolver.resolve(output["Value"]))
            export = resolver.resolve(output["Export"]["Name"]) if "Export" in output else None
            outputs[name] = {"value": value, "description": output.get("Description"), "export": export}
            if export:
                exports[export] = value
        self._check_exports(self._stack, exports)
        stack = self._stack
        stack.template, stack.resolved = template, dict(resolved)
        stack.outputs, stack.exports, stack.imports = outputs, exports, set(resolver.imported)

    # --- back and away ---------------------------------------------------------------------------------------------

    def _roll_back(self, before: Mapping[str, ResourceState]) -> None:
        """Old properties first, in dependency order; then what is new goes, dependents first."""
        stack = self._stack
        self._context.cancelled.clear()
        failures: list[ResourceState] = []
        fresh = [state for name, state in stack.resources.items() if name not in before]
        for name in reversed(deletion_order(_within(before))):
            old, state = before[name], stack.resources[name]
            if state is old:
                continue
            stack.resources[name] = old
            if state.new:  # its replacement
                fresh.append(state)
            elif state.properties != old.properties:
                back = replace(old, physical_id=state.physical_id, properties=state.properties, status=state.status)
                stack.resources[name] = back
                try:
                    self._worker.update(back, old.properties)
                except OperationFailed:
                    failures.append(back)
                if back.physical_id != state.physical_id:  # a custom resource's new id, which now is the former one
                    fresh.append(state)
        stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        needs = {state.logical_id: state.needs for state in fresh}
        for state in sorted(fresh, key=lambda item: deletion_order(needs).index(item.logical_id)):
            if not self._worker.delete(state, retain=state.deletion_policy == "Retain"):
                failures.append(state)
            if state.logical_id not in before:
                del stack.resources[state.logical_id]
        self._end_rollback(failures, "UPDATE_ROLLBACK")

    def _end_rollback(self, failures: list[ResourceState], kind: str) -> None:
        if failures:
            names = ", ".join(state.logical_id for state in failures)
            self._stack.set_status(f"{kind}_FAILED", f"The following resource(s) failed: [{names}].")
        else:
            self._stack.set_status(f"{kind}_COMPLETE")

    def _clean_up(self, before: Mapping[str, ResourceState], removed: list[ResourceState]) -> None:
        """Delete what was replaced or removed, dependents first. A failure here is an event, not a rollback."""
        order = deletion_order(_within(before))
        gone = [(state, state.replace_policy) for state in self._replaced]
        gone += [(state, state.deletion_policy) for state in removed]
        for state, policy in sorted(gone, key=lambda item: order.index(item[0].logical_id)):
            self._worker.delete(state, retain=policy in ("Retain", "RetainExceptOnCreate"))

    def _delete_all(self, *, retain: frozenset[str] = frozenset(), on_create: bool = False) -> list[ResourceState]:
        stack = self._stack
        self._context.cancelled.clear()
        policies = ("Retain",) if on_create else ("Retain", "RetainExceptOnCreate")
        failures: list[ResourceState] = []
        for name in deletion_order(_within(stack.resources)):
            state = stack.resources[name]
            # What something that is still there needs cannot go; it is tried again with the next deletion.
            needed = any(name in failed.needs for failed in failures)
            kept = name in retain or state.deletion_policy in policies
            if needed or not self._worker.delete(state, retain=kept):
                failures.append(state)
            else:
                del stack.resources[name]
        return failures


def stack_names(template: Template, resolver: Resolver) -> list[str]:
    """Logical ids whose condition holds."""
    return [
        name
        for name, spec in template.resources.items()
        if spec.condition is None or resolver.condition(spec.condition)
    ]


def _within(states: Mapping[str, ResourceState]) -> dict[str, set[str]]:
    return {name: state.needs & set(states) for name, state in states.items()}
