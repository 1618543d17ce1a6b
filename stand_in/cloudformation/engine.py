"""Create, update, roll back and delete: the state machine of one stack operation.

Independent resources are worked on at the same time, as CloudFormation does: an order that only happens to be right,
because a DependsOn is missing, does not pass unnoticed for long.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from stand_in.cloudformation.graph import deletion_order, dependencies
from stand_in.cloudformation.intrinsics import Resolver
from stand_in.cloudformation.registry import Context, ResourceFailed, changed, provider_of
from stand_in.cloudformation.stacks import ResourceState, Stack, now
from stand_in.cloudformation.template import ResourceSpec, Template, TemplateError

WORKERS = 8
CANCELLED = "Resource creation cancelled"


class OperationFailed(Exception):
    """A stack operation that ended in a rollback or in a failure; the reason is in the stack."""


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

    # --- what the API starts ---------------------------------------------------------------------------------------

    def create(self, template: Template, resolved: Mapping[str, Any], *, rollback: bool = True) -> None:
        """A new stack; on failure everything made so far is deleted again."""
        stack = self._stack
        stack.set_status("CREATE_IN_PROGRESS", "User Initiated")
        try:
            resolver = self._start(template, resolved)
            self._apply(template, resolver, before={})
            self._finish(template, resolved, resolver)
        except (OperationFailed, TemplateError, ResourceFailed) as error:
            if not rollback:
                stack.set_status("CREATE_FAILED", str(error))
                return
            stack.set_status("ROLLBACK_IN_PROGRESS", f"{error} Rollback requested by user.")
            self._end_rollback(self._delete_all(on_create=True), "ROLLBACK")
            return
        stack.set_status("CREATE_COMPLETE")

    def update(self, template: Template, resolved: Mapping[str, Any]) -> None:
        """An existing stack; on failure the old properties come back and what is new goes."""
        stack = self._stack
        stack.set_status("UPDATE_IN_PROGRESS", "User Initiated")
        stack.updated_at = now()
        before = dict(stack.resources)
        old = (stack.template, dict(stack.resolved))
        replaced: list[ResourceState] = []
        try:
            resolver = self._start(template, resolved)
            self._apply(template, resolver, before=before, replaced=replaced)
            removed = [state for name, state in before.items() if name not in stack_names(template, resolver)]
            self._finish(template, resolved, resolver)
        except (OperationFailed, TemplateError, ResourceFailed) as error:
            stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", str(error))
            self._roll_back(before)
            stack.template, stack.resolved = old
            return
        stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        self._clean_up(before, [*replaced, *removed])
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

    def _start(self, template: Template, resolved: Mapping[str, Any]) -> Resolver:
        self._context.cancelled.clear()
        self._stack.template = self._stack.template or template
        return self._make_resolver(self._stack, template, resolved)

    def _apply(
        self,
        template: Template,
        resolver: Resolver,
        *,
        before: Mapping[str, ResourceState],
        replaced: list[ResourceState] | None = None,
    ) -> None:
        active = {name: template.resources[name] for name in stack_names(template, resolver)}
        needs = dependencies(active)

        def work(name: str) -> None:
            old = before.get(name)
            self._one(active[name], needs[name], resolver, old, [] if replaced is None else replaced)

        self._in_order(needs, work)

    def _one(
        self,
        spec: ResourceSpec,
        needs: set[str],
        resolver: Resolver,
        old: ResourceState | None,
        replaced: list[ResourceState],
    ) -> None:
        stack, provider = self._stack, provider_of(spec.type)
        state = ResourceState(
            logical_id=spec.logical_id,
            type=spec.type,
            deletion_policy=spec.deletion_policy,
            replace_policy=spec.replace_policy,
            needs=needs,
        )
        props = resolver.resolve(spec.properties)
        if old is not None and old.type == spec.type:
            state.physical_id, state.attributes = old.physical_id, old.attributes
            state.properties, state.status = old.properties, old.status
            differing = changed(old.properties, props)
            if not differing:
                stack.resources[spec.logical_id] = state
                return
            if not differing & provider.replace_on:
                stack.resources[spec.logical_id] = state
                self._do(
                    state, "UPDATE", lambda: provider.update(self._for(state), old.physical_id, old.properties, props)
                )
                state.properties = props
                if state.physical_id != old.physical_id:  # a custom resource that answered with a new id
                    replaced.append(old)
                return
        if old is not None:
            replaced.append(old)
            state.physical_id, state.attributes = "", {}
            stack.set_resource(state, "UPDATE_IN_PROGRESS", "Requested update requires the creation of a new resource")
        stack.resources[spec.logical_id] = state
        state.properties = props
        self._do(state, "CREATE", lambda: provider.create(self._for(state), spec.logical_id, props))

    def _do(self, state: ResourceState, verb: str, work: Callable[[], Any]) -> None:
        self._stack.set_resource(state, f"{verb}_IN_PROGRESS")
        try:
            made = work()
        except Exception as error:
            if not isinstance(error, ResourceFailed):
                traceback.print_exc()
            reason = CANCELLED if self._context.cancelled.is_set() and "cancelled" in str(error) else str(error)
            self._stack.set_resource(state, f"{verb}_FAILED", reason)
            raise OperationFailed(
                f"The following resource(s) failed to {verb.lower()}: [{state.logical_id}]."
            ) from error
        state.physical_id, state.attributes = made.physical_id, made.attributes
        self._stack.set_resource(state, f"{verb}_COMPLETE")

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

    # --- back and away -----------------------------------------------------------------------------------------------

    def _roll_back(self, before: Mapping[str, ResourceState]) -> None:
        """Old properties first, in dependency order; then what is new goes, dependents first."""
        stack = self._stack
        self._context.cancelled.clear()
        fresh = []
        failures: list[ResourceState] = []
        for name, state in list(stack.resources.items()):
            old = before.get(name)
            if old is None or (state.physical_id != old.physical_id and state.status != "UPDATE_FAILED"):
                fresh.append(state)
        needs = {name: state.needs & set(before) for name, state in before.items()}
        for name in reversed(deletion_order(needs)):
            old, state = before[name], stack.resources.get(name)
            if (state is not None and state not in fresh and state.properties != old.properties) or (
                state is not None and state.status == "UPDATE_FAILED"
            ):
                current = state.properties
                back = replace(old)
                stack.resources[name] = back
                try:
                    provider = provider_of(old.type)
                    self._do(
                        back,
                        "UPDATE",
                        lambda p=provider, o=old, c=current: p.update(self._for(o), o.physical_id, c, o.properties),
                    )
                except OperationFailed:
                    failures.append(back)
            elif state is not None:
                stack.resources[name] = old
        stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        order = {name: index for index, name in enumerate(deletion_order({s.logical_id: s.needs for s in fresh}))}
        for state in sorted(fresh, key=lambda item: order.get(item.logical_id, 0)):
            if not self._delete_one(state):
                failures.append(state)
            if state.logical_id not in before:
                stack.resources.pop(state.logical_id, None)
        self._end_rollback(failures, "UPDATE_ROLLBACK")

    def _end_rollback(self, failures: list[ResourceState], kind: str) -> None:
        if failures:
            names = ", ".join(state.logical_id for state in failures)
            self._stack.set_status(f"{kind}_FAILED", f"The following resource(s) failed: [{names}].")
        else:
            self._stack.set_status(f"{kind}_COMPLETE")

    def _clean_up(self, before: Mapping[str, ResourceState], gone: list[ResourceState]) -> None:
        """Delete what was replaced or removed, dependents first. A failure here is an event, not a rollback."""
        order = {name: index for index, name in enumerate(deletion_order({n: s.needs for n, s in before.items()}))}
        for state in sorted(gone, key=lambda item: order.get(item.logical_id, 0)):
            current = self._stack.resources.get(state.logical_id)
            policy = state.replace_policy if current is not None and current is not state else state.deletion_policy
            self._delete_one(replace(state, deletion_policy=policy))

    def _delete_all(self, *, retain: frozenset[str] = frozenset(), on_create: bool = False) -> list[ResourceState]:
        stack = self._stack
        needs = {name: state.needs & set(stack.resources) for name, state in stack.resources.items()}
        failures: list[ResourceState] = []
        for name in deletion_order(needs):
            state = stack.resources[name]
            if any(name in failed.needs for failed in failures):
                failures.append(state)
                continue
            if name in retain or (state.deletion_policy == "RetainExceptOnCreate" and not on_create):
                stack.set_resource(state, "DELETE_SKIPPED")
            elif not self._delete_one(state):
                failures.append(state)
                continue
            del stack.resources[name]
        return failures

    def _delete_one(self, state: ResourceState) -> bool:
        stack = self._stack
        if state.deletion_policy == "Retain":
            stack.set_resource(state, "DELETE_SKIPPED")
            return True
        if not state.physical_id:  # it never came to exist
            return True
        stack.set_resource(state, "DELETE_IN_PROGRESS")
        try:
            provider_of(state.type).delete(self._for(state), state.physical_id, state.properties)
        except Exception as error:
            if not isinstance(error, ResourceFailed):
                traceback.print_exc()
            stack.set_resource(state, "DELETE_FAILED", str(error))
            return False
        stack.set_resource(state, "DELETE_COMPLETE")
        return True

    def _for(self, state: ResourceState) -> Context:
        return replace(self._context, logical_id=state.logical_id, resource_type=state.type)

    # --- order -----------------------------------------------------------------------------------------------------

    def _in_order(self, needs: Mapping[str, set[str]], work: Callable[[str], None]) -> None:
        """Run `work` for each name once what it needs is done. The first failure cancels the rest and is raised."""
        left = {name: set(of) for name, of in needs.items()}
        running: dict[Future[None], str] = {}
        failure: BaseException | None = None
        with ThreadPoolExecutor(WORKERS, thread_name_prefix=self._stack.name) as pool:
            while left or running:
                if failure is None:
                    for name in [name for name, of in left.items() if not of]:
                        del left[name]
                        running[pool.submit(work, name)] = name
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    error = future.exception()
                    if error is not None:
                        failure = failure or error
                        self._context.cancelled.set()
                    for of in left.values():
                        of.discard(name)
        if failure is not None:
            raise failure


def stack_names(template: Template, resolver: Resolver) -> list[str]:
    """Logical ids whose condition holds."""
    return [
        name
        for name, spec in template.resources.items()
        if spec.condition is None or resolver.condition(spec.condition)
    ]
