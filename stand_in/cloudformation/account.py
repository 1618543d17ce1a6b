"""The stacks of the account, and what every action on them needs: clients, resolvers, checks, the operation itself."""

from __future__ import annotations

import random
import string
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stand_in.cloudformation import resources as _resources  # noqa: F401 - registers the providers
from stand_in.cloudformation.changes import ChangeSet
from stand_in.cloudformation.engine import Operation
from stand_in.cloudformation.inputs import Inputs, Reader
from stand_in.cloudformation.intrinsics import Resolver
from stand_in.cloudformation.mailbox import Mailbox
from stand_in.cloudformation.registry import Context, ResourceFailed
from stand_in.cloudformation.stacks import Stack
from stand_in.cloudformation.template import Template, TemplateError

DELETED = "DELETE_COMPLETE"
UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class Account:
    """All stacks of the account, in all regions.

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
        self._reader = Reader(client)
        self._lock = threading.RLock()
        self._stacks: dict[str, Stack] = {}
        self._change_sets: dict[str, ChangeSet] = {}

    # --- for the stand-in's own pages ------------------------------------------------------------------------------

    def stack(self, name: str, region: str) -> Stack:
        """A stack by name or id. Raises TemplateError for one that does not exist."""
        return self._existing(name, region)

    def stack_id(self, name: str, region: str) -> str | None:
        """The id of the stack that has this name now, or None."""
        found = self._find(name, region)
        return found.id if found else None

    def inventory(self) -> dict[str, str]:
        """The stacks that exist, for the sweep."""
        with self._lock:
            stacks = list(self._stacks.values())
        return {f"cloudformation/{one.region}/stacks/{one.name}": "" for one in stacks if one.status != DELETED}

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

    # --- finding stacks --------------------------------------------------------------------------------------------

    def _held(self, region: str, *, deleted: bool = False) -> list[Stack]:
        with self._lock:
            return [one for one in self._stacks.values() if one.region == region and (deleted or one.status != DELETED)]

    def _find(self, name: str, region: str) -> Stack | None:
        """By id also a deleted one, as on AWS."""
        by_id = self._stacks.get(name)
        return by_id or next((stack for stack in self._held(region) if stack.name == name), None)

    def _existing(self, name: str, region: str, *, deleted: bool = False) -> Stack:
        stack = self._find(name, region)
        if stack is None or (stack.status == DELETED and not deleted):
            raise TemplateError(f"Stack with id {name} does not exist")
        return stack

    def _new_stack(self, name: str, region: str) -> Stack:
        with self._lock:
            if any(held.name == name for held in self._held(region)):
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

    # --- exports ---------------------------------------------------------------------------------------------------

    def _check_exports(self, stack: Stack, exports: Mapping[str, str]) -> None:
        for other in self._held(stack.region):
            for name in exports:
                if other is not stack and name in other.exports:
                    raise TemplateError(f"Export with name {name} is already exported by stack {other.name}.")
        for name, value in stack.exports.items():
            if exports.get(name) != value:
                self._require_unused(stack, name, "updated" if name in exports else "deleted")

    def _require_unused(self, stack: Stack, export: str, verb: str) -> None:
        users = [other.name for other in self._held(stack.region) if other is not stack and export in other.imports]
        if users:
            raise TemplateError(f"Export {export} cannot be {verb} as it is in use by {', '.join(users)}")

    # --- running ---------------------------------------------------------------------------------------------------

    def _run(self, stack: Stack, verb: str, allowed: Iterable[str], work: Callable[[Operation], None]) -> None:
        """Start an operation, if the stack is in one of the `allowed` states."""
        operation = Operation(
            stack=stack, context=self.context(stack), resolver=self._resolver, check_exports=self._check_exports
        )
        with self._lock:
            if stack.status not in allowed:
                what = "updated" if verb == "UPDATE" else f"{verb.lower()}d"
                raise TemplateError(f"Stack:{stack.id} is in {stack.status} state and can not be {what}.")
            stack.status = f"{verb}_IN_PROGRESS"  # at once, so that no second operation is accepted

        def guarded() -> None:
            try:
                work(operation)
            except BaseException as error:
                stack.set_status(f"{verb}_FAILED", f"Internal Failure of the stand-in: {error!r}")
                raise

        threading.Thread(target=guarded, name=f"stack-{stack.name}", daemon=True).start()

    def _create(self, stack: Stack, inputs: Inputs, *, rollback: bool) -> None:
        def work(operation: Operation) -> None:
            inputs.keep_in(stack)
            operation.create(inputs.template, inputs.resolved, rollback=rollback)

        self._run(stack, "CREATE", ("REVIEW_IN_PROGRESS",), work)

    def _update(self, stack: Stack, inputs: Inputs) -> None:
        def work(operation: Operation) -> None:
            previous = inputs.keep_in(stack)
            operation.update(inputs.template, inputs.resolved, previous=previous)

        self._run(stack, "UPDATE", UPDATABLE, work)

    def _resolver(self, stack: Stack, template: Template, resolved: Mapping[str, Any]) -> Resolver:
        def reference(logical_id: str) -> str:
            if logical_id not in stack.resources:
                raise TemplateError(f"Template format error: Unresolved resource dependencies [{logical_id}]")
            return stack.resources[logical_id].physical_id

        def attribute(logical_id: str, name: str) -> Any:
            reference(logical_id)
            state = stack.resources[logical_id]
            if name not in state.attributes:
                raise ResourceFailed(f"{state.type} has no attribute {name} (asked of {logical_id})")
            return state.attributes[name]

        def import_value(name: str) -> str:
            for other in self._held(stack.region):
                if name in other.exports:
                    return other.exports[name]
            raise TemplateError(f"No export named {name} found.")

        def zones(region: str) -> list[str]:
            held = self._client("ec2", region).describe_availability_zones()["AvailabilityZones"]
            return [zone["ZoneName"] for zone in held]

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
            reference=reference,
            attribute=attribute,
            import_value=import_value,
            parameter_of_ssm=lambda name: self._reader.ssm(name, stack.region),
            zones=zones,
        )


def _random(length: int) -> str:
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=length))
