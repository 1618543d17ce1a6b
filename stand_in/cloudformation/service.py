"""The CloudFormation API: one method per action, plain dictionaries in and out."""

from __future__ import annotations

import json

from stand_in.cloudformation import views
from stand_in.cloudformation.account import DELETED
from stand_in.cloudformation.change_set_api import ChangeSetActions, NotFound, Params, Result
from stand_in.cloudformation.engine import Operation
from stand_in.cloudformation.template import TemplateError
from stand_in.cloudformation.validation import check

__all__ = ["CloudFormation", "NotFound"]

DELETABLE = (
    "REVIEW_IN_PROGRESS",
    "CREATE_COMPLETE",
    "CREATE_FAILED",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "UPDATE_COMPLETE",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_FAILED",
    "DELETE_FAILED",
)


class CloudFormation(ChangeSetActions):
    """Actions on stacks; those on change sets are inherited."""

    # --- changing --------------------------------------------------------------------------------------------------

    def create_stack(self, params: Params, region: str) -> Result:
        inputs = self._reader.read(params, region)
        stack = self._new_stack(params["StackName"], region)
        try:
            check(stack, inputs.template, self._resolver(stack, inputs.template, inputs.resolved))
        except TemplateError:
            with self._lock:
                del self._stacks[stack.id]
            raise
        stack.protected = bool(params.get("EnableTerminationProtection"))
        rollback = not params.get("DisableRollback") and params.get("OnFailure") != "DO_NOTHING"
        self._create(stack, inputs, rollback=rollback)
        return {"StackId": stack.id}

    def update_stack(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region)
        inputs = self._reader.read(params, region, stack)
        if not inputs.differ_from(stack):
            raise TemplateError("No updates are to be performed.")
        check(stack, inputs.template, self._resolver(stack, inputs.template, inputs.resolved))
        self._update(stack, inputs)
        return {"StackId": stack.id}

    def delete_stack(self, params: Params, region: str) -> Result:
        stack = self._find(params["StackName"], region)
        if stack is None or stack.status == DELETED:
            return {}
        if stack.protected:
            raise TemplateError(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
        for export in stack.exports:
            self._require_unused(stack, export, "deleted")

        def work(operation: Operation) -> None:
            operation.delete(retain=params.get("RetainResources", ()))

        self._run(stack, "DELETE", DELETABLE, work)
        return {}

    def signal_resource(self, params: Params, region: str) -> Result:
        """Only while the stack works on the resource: an instance that comes later is refused, as on AWS."""
        stack, name = self._existing(params["StackName"], region), params["LogicalResourceId"]
        if name not in stack.resources:
            raise TemplateError(f"Resource {name} does not exist for stack {stack.name}")
        box = stack.signals.get(name)
        if box is None:
            status = stack.status if not stack.status.endswith("IN_PROGRESS") else stack.resources[name].status
            raise TemplateError(f"Stack:{stack.id} is in {status} state and cannot be signaled")
        message = {"UniqueId": params["UniqueId"], "Status": params["Status"]}
        self.mailbox.put("/_torchlift/" + box.partition("/_torchlift/")[2], "", json.dumps(message).encode())
        return {}

    def update_termination_protection(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region)
        stack.protected = bool(params["EnableTerminationProtection"])
        return {"StackId": stack.id}

    # --- looking ---------------------------------------------------------------------------------------------------

    def describe_stacks(self, params: Params, region: str) -> Result:
        if "StackName" in params:
            return {"Stacks": [views.stack(self._existing(params["StackName"], region, deleted=True))]}
        return {"Stacks": [views.stack(stack) for stack in self._held(region)]}

    def list_stacks(self, params: Params, region: str) -> Result:
        wanted = params.get("StackStatusFilter")
        held = self._held(region, deleted=True)
        return {"StackSummaries": [views.stack(stack) for stack in held if not wanted or stack.status in wanted]}

    def describe_events(self, params: Params, region: str) -> Result:
        """Events of an operation, which the CLI asks for to explain a failed change set: its reason says it all."""
        return {"OperationEvents": []}

    def list_hook_results(self, params: Params, region: str) -> Result:
        """The account has no hooks."""
        return {"HookResults": []}

    def describe_stack_events(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region, deleted=True)
        return {"StackEvents": [views.event(stack, event) for event in reversed(stack.events)]}

    def describe_stack_resources(self, params: Params, region: str) -> Result:
        found = views.resources(self._existing(params["StackName"], region, deleted=True))
        wanted = params.get("LogicalResourceId")
        return {"StackResources": [view for view in found if wanted in (None, view["LogicalResourceId"])]}

    def describe_stack_resource(self, params: Params, region: str) -> Result:
        found = self.describe_stack_resources(params, region)["StackResources"]
        if not found:
            raise TemplateError(
                f"Resource {params['LogicalResourceId']} does not exist for stack {params['StackName']}"
            )
        return {"StackResourceDetail": found[0] | {"LastUpdatedTimestamp": found[0]["Timestamp"]}}

    def list_stack_resources(self, params: Params, region: str) -> Result:
        found = views.resources(self._existing(params["StackName"], region, deleted=True))
        return {"StackResourceSummaries": [view | {"LastUpdatedTimestamp": view["Timestamp"]} for view in found]}

    def get_template(self, params: Params, region: str) -> Result:
        if "ChangeSetName" in params:
            text = self._change_set(params).inputs.template.text
        else:
            template = self._existing(params["StackName"], region, deleted=True).template
            text = template.text if template else "{}"
        return {"TemplateBody": text, "StagesAvailable": ["Original", "Processed"]}

    def get_template_summary(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region) if "StackName" in params else None
        template = stack.template if stack else self._reader.template(params, region)
        if template is None:
            raise TemplateError(f"Stack {params['StackName']} has no template yet")
        return {
            "Parameters": [views.parameter(name, spec) for name, spec in template.parameters.items()],
            "Description": template.document.get("Description"),
            "ResourceTypes": sorted({spec.type for spec in template.resources.values()}),
            "Capabilities": [],
        }

    def validate_template(self, params: Params, region: str) -> Result:
        template = self._reader.template(params, region)
        return {"Parameters": [views.parameter(name, spec) for name, spec in template.parameters.items()]}

    def list_exports(self, params: Params, region: str) -> Result:
        return {
            "Exports": [
                {"ExportingStackId": stack.id, "Name": name, "Value": value}
                for stack in self._held(region)
                for name, value in stack.exports.items()
            ]
        }

    def list_imports(self, params: Params, region: str) -> Result:
        users = [stack.name for stack in self._held(region) if params["ExportName"] in stack.imports]
        if not users:
            raise TemplateError(f"Export '{params['ExportName']}' is not imported by any stack.")
        return {"Imports": users}
