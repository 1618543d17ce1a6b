"""The CloudFormation API: one method per action, plain dictionaries in and out."""

from __future__ import annotations

import random
import re
import string
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from stand_in.cloudformation import resources as _resources  # noqa: F401 - registers the providers
from stand_in.cloudformation.changes import ChangeSet, describe_changes
from stand_in.cloudformation.engine import Operation, stack_names
from stand_in.cloudformation.graph import dependencies
from stand_in.cloudformation.intrinsics import Resolver
from stand_in.cloudformation.mailbox import Mailbox
from stand_in.cloudformation.registry import Context, ResourceFailed, check_properties
from stand_in.cloudformation.stacks import Stack
from stand_in.cloudformation.template import Template, TemplateError, parse_template

Params = Mapping[str, Any]
Result = dict[str, Any]
NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."
UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class NotFound(Exception):
    """A change set that does not exist."""


class CloudFormation:
    """All stacks of the account.

    `client(service, region)` makes boto3 clients for providers; `invoke_lambda(arn, payload, region)` runs a function.
    """

    def __init__(
        self,
        *,
        account: str,
        base_url: str,
        client: Callable[[str, str], Any],
        invoke_lambda: Callable[[str, Mapping[str, Any], str], Any],
    ) -> None:
        self.mailbox = Mailbox(base_url)
        self._account = account
        self._base_url = base_url
        self._client = client
        self._invoke_lambda = invoke_lambda
        self._lock = threading.RLock()
        self._stacks: dict[str, Stack] = {}
        self._change_sets: dict[str, ChangeSet] = {}

    # --- stacks ----------------------------------------------------------------------------------------------------

    def create_stack(self, params: Params, region: str) -> Result:
        template = self._template(params, region)
        stack = self._new_stack(params["StackName"], region, template)
        self._accept(stack, params)
        resolved = self._resolve_parameters(stack, template, params)
        rollback = not params.get("DisableRollback") and params.get("OnFailure") != "DO_NOTHING"
        self._run(stack, lambda operation: operation.create(template, resolved, rollback=rollback))
        return {"StackId": stack.id}

    def update_stack(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region)
        self._require_updatable(stack)
        template = self._template(params, region, stack)
        resolved = self._resolve_parameters(stack, template, params)
        if not self._differs(stack, template, resolved, params):
            raise TemplateError("No updates are to be performed.")
        self._accept(stack, params)
        self._run(stack, lambda operation: operation.update(template, resolved))
        return {"StackId": stack.id}

    def delete_stack(self, params: Params, region: str) -> Result:
        stack = self._find(params["StackName"], region)
        if stack is None or stack.status == "DELETE_COMPLETE":
            return {}
        if stack.protected:
            raise TemplateError(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
        for export in stack.exports:
            self._require_unused(stack, export, "deleted")
        if stack.busy:
            raise TemplateError(f"Stack [{stack.name}] is in {stack.status} state and can not be deleted")
        self._run(stack, lambda operation: operation.delete(retain=params.get("RetainResources", ())))
        return {}

    def describe_stacks(self, params: Params, region: str) -> Result:
        if "StackName" in params:
            return {"Stacks": [self._stack_view(self._existing(params["StackName"], region, deleted=True))]}
        return {"Stacks": [self._stack_view(stack) for stack in self._alive(region)]}

    def list_stacks(self, params: Params, region: str) -> Result:
        wanted = params.get("StackStatusFilter")
        return {
            "StackSummaries": [
                self._stack_view(stack)
                for stack in self._stacks.values()
                if stack.region == region and (not wanted or stack.status in wanted)
            ]
        }

    def update_termination_protection(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region)
        stack.protected = bool(params["EnableTerminationProtection"])
        return {"StackId": stack.id}

    # --- looking ---------------------------------------------------------------------------------------------------

    def describe_events(self, params: Params, region: str) -> Result:
        """Events of an operation, which the CLI asks for to explain a failed change set: its reason says it all."""
        return {"OperationEvents": []}

    def list_hook_results(self, params: Params, region: str) -> Result:
        """The account has no hooks."""
        return {"HookResults": []}

    def describe_stack_events(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region, deleted=True)
        return {
            "StackEvents": [
                {
                    "StackId": stack.id,
                    "StackName": stack.name,
                    "EventId": event.id,
                    "LogicalResourceId": event.logical_id,
                    "PhysicalResourceId": event.physical_id,
                    "ResourceType": event.type,
                    "Timestamp": event.at,
                    "ResourceStatus": event.status,
                    "ResourceStatusReason": event.reason or None,
                }
                for event in reversed(stack.events)
            ]
        }

    def describe_stack_resources(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region, deleted=True)
        views = self._resource_views(stack)
        if "LogicalResourceId" in params:
            views = [view for view in views if view["LogicalResourceId"] == params["LogicalResourceId"]]
        return {"StackResources": views}

    def describe_stack_resource(self, params: Params, region: str) -> Result:
        views = self.describe_stack_resources(params, region)["StackResources"]
        if not views:
            raise TemplateError(
                f"Resource {params['LogicalResourceId']} does not exist for stack {params['StackName']}"
            )
        return {"StackResourceDetail": views[0] | {"LastUpdatedTimestamp": views[0]["Timestamp"]}}

    def list_stack_resources(self, params: Params, region: str) -> Result:
        views = self._resource_views(self._existing(params["StackName"], region, deleted=True))
        return {"StackResourceSummaries": [view | {"LastUpdatedTimestamp": view["Timestamp"]} for view in views]}

    def get_template(self, params: Params, region: str) -> Result:
        if "ChangeSetName" in params:
            template: Template | None = self._change_set(params, region).template
        else:
            template = self._existing(params["StackName"], region, deleted=True).template
        return {"TemplateBody": template.text if template else "{}", "StagesAvailable": ["Original", "Processed"]}

    def get_template_summary(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region) if "StackName" in params else None
        template = stack.template if stack else self._template(params, region)
        assert template is not None
        return {
            "Parameters": [self._parameter_view(name, spec) for name, spec in template.parameters.items()],
            "Description": template.document.get("Description"),
            "ResourceTypes": sorted({spec.type for spec in template.resources.values()}),
            "Capabilities": [],
        }

    def validate_template(self, params: Params, region: str) -> Result:
        template = self._template(params, region)
        return {"Parameters": [self._parameter_view(name, spec) for name, spec in template.parameters.items()]}

    def list_exports(self, params: Params, region: str) -> Result:
        return {
            "Exports": [
                {"ExportingStackId": stack.id, "Name": name, "Value": value}
                for stack in self._alive(region)
                for name, value in stack.exports.items()
            ]
        }

    def list_imports(self, params: Params, region: str) -> Result:
        users = [stack.name for stack in self._alive(region) if params["ExportName"] in stack.imports]
        if not users:
            raise TemplateError(f"Export '{params['ExportName']}' is not imported by any stack.")
        return {"Imports": users}

    # --- change sets -----------------------------------------------------------------------------------------------

    def create_change_set(self, params: Params, region: str) -> Result:
        kind = params.get("ChangeSetType", "UPDATE")
        stack = self._find(params["StackName"], region)
        if kind == "CREATE":
            if stack is not None and stack.status not in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE"):
                raise TemplateError(
                    f"Stack [{stack.name}] already exists and cannot be created again with the changeSet"
                )
            template = self._template(params, region)
            if stack is None or stack.status == "DELETE_COMPLETE":
                stack = self._new_stack(params["StackName"], region, template)
        else:
            stack = self._existing(params["StackName"], region)
            self._require_updatable(stack)
            template = self._template(params, region, stack)
        change_set = ChangeSet(
            name=params["ChangeSetName"],
            id=f"arn:aws:cloudformation:{region}:{self._account}:changeSet/{params['ChangeSetName']}/{uuid.uuid4()}",
            stack=stack,
            kind=kind,
            template=template,
            params=dict(params),
        )
        for other in [
            held for held in self._change_sets.values() if held.stack is stack and held.name == change_set.name
        ]:
            del self._change_sets[other.id]
        self._change_sets[change_set.id] = change_set
        self._plan(change_set)
        return {"Id": change_set.id, "StackId": stack.id}

    def describe_change_set(self, params: Params, region: str) -> Result:
        change_set = self._change_set(params, region)
        stack = change_set.stack
        return {
            "ChangeSetName": change_set.name,
            "ChangeSetId": change_set.id,
            "StackId": stack.id,
            "StackName": stack.name,
            "CreationTime": change_set.created_at,
            "ExecutionStatus": change_set.execution_status,
            "Status": change_set.status,
            "StatusReason": change_set.reason or None,
            "Changes": change_set.changes,
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": str(value)} for key, value in change_set.resolved.items()
            ],
            "Capabilities": params.get("Capabilities", []),
            "Tags": change_set.params.get("Tags", []),
        }

    def list_change_sets(self, params: Params, region: str) -> Result:
        stack = self._existing(params["StackName"], region)
        held = [item for item in self._change_sets.values() if item.stack is stack]
        return {
            "Summaries": [{"ChangeSetName": item.name, "ChangeSetId": item.id, "Status": item.status} for item in held]
        }

    def delete_change_set(self, params: Params, region: str) -> Result:
        try:
            change_set = self._change_set(params, region)
        except NotFound:
            return {}
        del self._change_sets[change_set.id]
        return {}

    def execute_change_set(self, params: Params, region: str) -> Result:
        change_set = self._change_set(params, region)
        if change_set.execution_status != "AVAILABLE":
            raise TemplateError(
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of [{change_set.status}]"
            )
        stack, template, resolved = change_set.stack, change_set.template, change_set.resolved
        self._accept(stack, change_set.params)
        stack.change_set_id = change_set.id
        for held in [item for item in self._change_sets.values() if item.stack is stack]:
            del self._change_sets[held.id]
        if change_set.kind == "CREATE":
            rollback = not params.get("DisableRollback")
            self._run(stack, lambda operation: operation.create(template, resolved, rollback=rollback))
        else:
            self._run(stack, lambda operation: operation.update(template, resolved))
        return {}

    def _plan(self, change_set: ChangeSet) -> None:
        stack, template = change_set.stack, change_set.template
        try:
            change_set.resolved = self._resolve_parameters(stack, template, change_set.params)
            if change_set.kind == "UPDATE" and not self._differs(
                stack, template, change_set.resolved, change_set.params
            ):
                raise TemplateError(NO_CHANGES)
            resolver = self._resolver(stack, template, change_set.resolved)
            active = {name: template.resources[name] for name in stack_names(template, resolver)}
            for name, spec in active.items():
                check_properties(name, spec.type, spec.properties)
            dependencies(active)
            change_set.changes = describe_changes(stack, active, resolver)
        except (TemplateError, ResourceFailed) as error:
            change_set.status, change_set.execution_status, change_set.reason = "FAILED", "UNAVAILABLE", str(error)

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _run(self, stack: Stack, work: Callable[[Operation], None]) -> None:
        operation = Operation(
            stack=stack,
            context=self.context(stack),
            resolver=self._resolver,
            check_exports=self._check_exports,
        )
        verb = "CREATE" if stack.status == "REVIEW_IN_PROGRESS" else "UPDATE"
        stack.status = f"{verb}_IN_PROGRESS"  # at once, so that no second operation is accepted

        def guarded() -> None:
            try:
                work(operation)
            except BaseException as error:
                stack.set_status(f"{verb}_FAILED", f"Internal Failure of the stand-in: {error!r}")
                raise

        threading.Thread(target=guarded, name=f"stack-{stack.name}", daemon=True).start()

    def inventory(self) -> dict[str, str]:
        """The stacks that exist, for the sweep."""
        with self._lock:
            stacks = list(self._stacks.values())
        return {
            f"cloudformation/{stack.region}/stacks/{stack.name}": ""
            for stack in stacks
            if stack.status != "DELETE_COMPLETE"
        }

    def context(self, stack: Stack) -> Context:
        """What providers get for `stack`."""
        return Context(
            region=stack.region,
            account=self._account,
            stack_name=stack.name,
            stack_id=stack.id,
            base_url=self._base_url,
            client=lambda service: self._client(service, stack.region),
            invoke_lambda=lambda arn, payload: self._invoke_lambda(arn, payload, stack.region),
            mailbox=self.mailbox,
            cancelled=stack.cancelled,
            generate_name=lambda logical_id: f"{stack.name}-{logical_id}-{_random(12)}",
        )

    def _resolver(self, stack: Stack, template: Template, resolved: Mapping[str, Any]) -> Resolver:
        def attribute(logical_id: str, name: str) -> Any:
            state = stack.resources[logical_id]
            if name not in state.attributes:
                raise ResourceFailed(f"{state.type} has no attribute {name} (asked of {logical_id})")
            return state.attributes[name]

        def import_value(name: str) -> str:
            for other in self._alive(stack.region):
                if name in other.exports:
                    return other.exports[name]
            raise TemplateError(f"No export named {name} found.")

        return Resolver(
            template=template,
            parameters=dict(resolved),
            pseudo={
                "AWS::AccountId": self._account,
                "AWS::Region": stack.region,
                "AWS::Partition": "aws",
                "AWS::URLSuffix": "amazonaws.com",
                "AWS::StackId": stack.id,
                "AWS::StackName": stack.name,
                "AWS::NotificationARNs": [],
            },
            reference=lambda logical_id: stack.resources[logical_id].physical_id,
            attribute=attribute,
            import_value=import_value,
            parameter_of_ssm=lambda name: self._ssm(name, stack.region),
            zones=lambda region: [
                zone["ZoneName"]
                for zone in self._client("ec2", region).describe_availability_zones()["AvailabilityZones"]
            ],
        )

    def _ssm(self, name: str, region: str) -> str:
        client = self._client("ssm", region)
        try:
            return str(client.get_parameter(Name=name)["Parameter"]["Value"])
        except client.exceptions.ParameterNotFound:
            raise TemplateError(f"Unable to fetch parameters [{name}] from parameter store for this account.") from None

    def _template(self, params: Params, region: str, stack: Stack | None = None) -> Template:
        if params.get("UsePreviousTemplate") and stack is not None and stack.template is not None:
            return stack.template
        if "TemplateBody" in params:
            return parse_template(params["TemplateBody"])
        url = params["TemplateURL"]
        match = re.match(r"https?://(?:127\.0\.0\.1|localhost)(?::\d+)?/([^/]+)/(.+?)(?:\?.*)?$", url) or re.match(
            r"https?://([^./]+)\.s3[^/]*/(.+?)(?:\?.*)?$", url
        )
        if match is None:
            raise TemplateError(f"S3 error: the template URL {url} names no object of the stand-in")
        body = self._client("s3", region).get_object(Bucket=match[1], Key=match[2])["Body"].read()
        return parse_template(body.decode())

    def _resolve_parameters(self, stack: Stack, template: Template, params: Params) -> dict[str, Any]:
        given = {item["ParameterKey"]: item for item in params.get("Parameters", ())}
        unknown = set(given) - set(template.parameters)
        if unknown:
            raise TemplateError(f"Parameters: {sorted(unknown)} do not exist in the template")
        raw: dict[str, str] = {}
        for name, spec in template.parameters.items():
            item = given.get(name, {})
            if item.get("UsePreviousValue") and name in stack.parameters:
                raw[name] = stack.parameters[name]
            elif "ParameterValue" in item:
                raw[name] = item["ParameterValue"]
            elif "Default" in spec:
                raw[name] = str(spec["Default"])
            else:
                raise TemplateError(f"Parameters: [{name}] must have values")
        params_of = dict(params) if isinstance(params, dict) else {}
        params_of["_raw"] = raw
        if isinstance(params, dict):
            params["_raw"] = raw
        return {name: self._typed(template.parameters[name], value, stack.region) for name, value in raw.items()}

    def _typed(self, spec: Mapping[str, Any], value: str, region: str) -> Any:
        kind = str(spec["Type"])
        if kind.startswith("AWS::SSM::Parameter::Value"):
            value = self._ssm(value, region)
        if "List" in kind:
            return [item.strip() for item in value.split(",")]
        return value

    def _accept(self, stack: Stack, params: Params) -> None:
        stack.parameters = dict(params.get("_raw", stack.parameters))
        if "Tags" in params:
            stack.tags = {tag["Key"]: tag["Value"] for tag in params["Tags"]}
        stack.role_arn = params.get("RoleARN", stack.role_arn)
        stack.capabilities = list(params.get("Capabilities", stack.capabilities))

    def _differs(self, stack: Stack, template: Template, resolved: Mapping[str, Any], params: Params) -> bool:
        assert stack.template is not None
        tags = {tag["Key"]: tag["Value"] for tag in params.get("Tags", ())} if "Tags" in params else stack.tags
        return (stack.template.document, stack.resolved, stack.tags) != (template.document, dict(resolved), tags)

    def _check_exports(self, stack: Stack, exports: Mapping[str, str]) -> None:
        for other in self._alive(stack.region):
            for name in exports:
                if other is not stack and name in other.exports:
                    raise TemplateError(f"Export with name {name} is already exported by stack {other.name}.")
        for name, value in stack.exports.items():
            if exports.get(name) != value:
                self._require_unused(stack, name, "updated" if name in exports else "deleted")

    def _require_unused(self, stack: Stack, export: str, verb: str) -> None:
        users = [other.name for other in self._alive(stack.region) if other is not stack and export in other.imports]
        if users:
            raise TemplateError(f"Export {export} cannot be {verb} as it is in use by {', '.join(users)}")

    def _require_updatable(self, stack: Stack) -> None:
        if stack.status not in UPDATABLE:
            raise TemplateError(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")

    def _new_stack(self, name: str, region: str, template: Template) -> Stack:
        with self._lock:
            old = self._find(name, region)
            if old is not None and old.status != "DELETE_COMPLETE":
                raise TemplateError(f"Stack [{name}] already exists")
            stack = Stack(
                name=name,
                id=f"arn:aws:cloudformation:{region}:{self._account}:stack/{name}/{uuid.uuid4()}",
                region=region,
                account=self._account,
            )
            stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
            self._stacks[stack.id] = stack
            return stack

    def _alive(self, region: str) -> list[Stack]:
        return [item for item in self._stacks.values() if item.region == region and item.status != "DELETE_COMPLETE"]

    def _find(self, name: str, region: str) -> Stack | None:
        if name in self._stacks:
            return self._stacks[name]
        return next((stack for stack in self._alive(region) if stack.name == name), None)

    def _existing(self, name: str, region: str, *, deleted: bool = False) -> Stack:
        stack = self._find(name, region)
        if stack is None or (stack.status == "DELETE_COMPLETE" and not deleted):
            raise TemplateError(f"Stack with id {name} does not exist")
        return stack

    def stack(self, name: str, region: str) -> Stack:
        """A stack by name or id. Raises TemplateError for one that does not exist."""
        return self._existing(name, region)

    def _change_set(self, params: Params, region: str) -> ChangeSet:
        name, stack_name = params["ChangeSetName"], params.get("StackName")
        for item in self._change_sets.values():
            if item.id == name or (item.name == name and stack_name in (item.stack.name, item.stack.id)):
                return item
        raise NotFound(f"ChangeSet [{name}] does not exist")

    def _stack_view(self, stack: Stack) -> Result:
        return {
            "StackId": stack.id,
            "StackName": stack.name,
            "ChangeSetId": stack.change_set_id,
            "CreationTime": stack.created_at,
            "LastUpdatedTime": stack.updated_at,
            "DeletionTime": stack.deleted_at,
            "StackStatus": stack.status,
            "StackStatusReason": stack.reason or None,
            "Description": stack.template.document.get("Description") if stack.template else None,
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value, "ResolvedValue": str(stack.resolved.get(key, value))}
                for key, value in stack.parameters.items()
            ],
            "Tags": [{"Key": key, "Value": value} for key, value in stack.tags.items()],
            "Outputs": [
                {
                    "OutputKey": name,
                    "OutputValue": output["value"],
                    "Description": output["description"],
                    "ExportName": output["export"],
                }
                for name, output in stack.outputs.items()
            ],
            "Capabilities": stack.capabilities,
            "EnableTerminationProtection": stack.protected,
            "RoleARN": stack.role_arn,
            "DisableRollback": False,
            "NotificationARNs": [],
            "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
        }

    def _resource_views(self, stack: Stack) -> list[Result]:
        return [
            {
                "StackName": stack.name,
                "StackId": stack.id,
                "LogicalResourceId": state.logical_id,
                "PhysicalResourceId": state.physical_id,
                "ResourceType": state.type,
                "Timestamp": state.changed_at,
                "ResourceStatus": state.status,
                "ResourceStatusReason": state.reason or None,
                "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
            }
            for state in stack.resources.values()
        ]

    @staticmethod
    def _parameter_view(name: str, spec: Mapping[str, Any]) -> Result:
        return {
            "ParameterKey": name,
            "ParameterType": spec["Type"],
            "DefaultValue": str(spec["Default"]) if "Default" in spec else None,
            "NoEcho": bool(spec.get("NoEcho", False)),
            "Description": spec.get("Description"),
        }


def _random(length: int) -> str:
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=length))
