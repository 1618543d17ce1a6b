"""The API's actions on change sets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from stand_in.cloudformation import views
from stand_in.cloudformation.account import DELETED, UPDATABLE, Account
from stand_in.cloudformation.changes import ChangeSet, describe_changes
from stand_in.cloudformation.inputs import Inputs
from stand_in.cloudformation.registry import ResourceFailed
from stand_in.cloudformation.template import TemplateError
from stand_in.cloudformation.validation import check

Params = Mapping[str, Any]
Result = dict[str, Any]
NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."


class NotFound(Exception):
    """A change set that does not exist."""


class ChangeSetActions(Account):
    """One method per action."""

    def create_change_set(self, params: Params, region: str) -> Result:
        kind, name = params.get("ChangeSetType", "UPDATE"), params["ChangeSetName"]
        stack = self._find(params["StackName"], region)
        if kind == "CREATE":
            template = self._reader.template(params, region)
            if stack is None or stack.status == DELETED:
                stack = self._new_stack(params["StackName"], region)
            elif stack.status != "REVIEW_IN_PROGRESS":
                raise TemplateError(
                    f"Stack [{stack.name}] already exists and cannot be created again with the changeSet [{name}]."
                )
        else:
            stack = self._existing(params["StackName"], region)
            if stack.status not in UPDATABLE:
                raise TemplateError(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
            template = self._reader.template(params, region, stack)
        change_set = ChangeSet(
            name=name,
            id=f"arn:aws:cloudformation:{region}:{self._account}:changeSet/{name}/{uuid.uuid4()}",
            stack=stack,
            kind=kind,
            inputs=Inputs(template=template),
        )
        self._plan(change_set, params, region)
        with self._lock:
            if any(held.stack is stack and held.name == name for held in self._change_sets.values()):
                raise TemplateError(f"ChangeSet {name} already exists for the stack {stack.name}")
            self._change_sets[change_set.id] = change_set
        return {"Id": change_set.id, "StackId": stack.id}

    def describe_change_set(self, params: Params, region: str) -> Result:
        return views.change_set(self._change_set(params))

    def list_change_sets(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region)
        held = [views.change_set(item) for item in list(self._change_sets.values()) if item.stack is stack]
        return {"Summaries": held}

    def delete_change_set(self, params: Params, region: str) -> Result:
        try:
            change_set = self._change_set(params)
        except NotFound:
            return {}
        self._change_sets.pop(change_set.id, None)
        return {}

    def execute_change_set(self, params: Params, region: str) -> Result:
        change_set = self._change_set(params)
        if change_set.execution_status != "AVAILABLE":
            raise TemplateError(
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of [{change_set.status}]"
            )
        stack = change_set.stack
        if change_set.kind == "CREATE":
            self._create(stack, change_set.inputs, rollback=not params.get("DisableRollback"))
        else:
            self._update(stack, change_set.inputs)
        stack.change_set_id = change_set.id
        with self._lock:  # the others described changes to a stack that is no more
            for held in [item for item in self._change_sets.values() if item.stack is stack]:
                del self._change_sets[held.id]
        return {}

    def _plan(self, change_set: ChangeSet, params: Params, region: str) -> None:
        stack = change_set.stack
        try:
            change_set.inputs = self._reader.read(params, region, stack)
            if change_set.kind == "UPDATE" and not change_set.inputs.differ_from(stack):
                raise TemplateError(NO_CHANGES)
            template = change_set.inputs.template
            resolver = self._resolver(stack, template, change_set.inputs.resolved)
            active = check(stack, template, resolver)
            change_set.changes = describe_changes(stack, active, resolver, change_set.inputs.tags)
        except (TemplateError, ResourceFailed) as error:
            change_set.status, change_set.execution_status, change_set.reason = "FAILED", "UNAVAILABLE", str(error)

    def _change_set(self, params: Params) -> ChangeSet:
        name, stack_name = params["ChangeSetName"], params.get("StackName")
        for item in list(self._change_sets.values()):
            if item.id == name or (item.name == name and stack_name in (item.stack.name, item.stack.id)):
                return item
        raise NotFound(f"ChangeSet [{name}] does not exist")
