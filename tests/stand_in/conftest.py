"""One real stand-in for all tests of this folder, and shorthands for what they do with stacks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stand_in.session import StandIn, stand_in
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
REGION = "us-west-2"
Template = dict[str, Any]


class Stacks:
    """CloudFormation as its users see it: templates in, states, events and outputs out. Names are made unique."""

    def __init__(self, aws: StandIn) -> None:
        self.aws = aws
        self.api = aws.client("cloudformation")
        self.unique = uuid.uuid4().hex[:8]
        self._made: list[str] = []

    def name(self, name: str) -> str:
        """The real name of a stack, or of anything else that must be unique."""
        return f"{name}-{self.unique}"

    def create(self, name: str, resources: Mapping[str, Any], *, wait: bool = True, **more: Any) -> str:
        """Create a stack of these resources; returns the state it ends in."""
        arguments = self._split(resources, more)
        self._made.append(name)
        self.api.create_stack(StackName=self.name(name), **arguments)
        return self.settled(name) if wait else ""

    def update(self, name: str, resources: Mapping[str, Any], *, wait: bool = True, **more: Any) -> str:
        """Update a stack; returns the state it ends in."""
        self.api.update_stack(StackName=self.name(name), **self._split(resources, more))
        return self.settled(name) if wait else ""

    def delete(self, name: str, **more: Any) -> str:
        """Delete a stack; returns the state it ends in."""
        stack = self.stack(name)["StackId"]
        self.api.delete_stack(StackName=self.name(name), **more)
        return self.settled(stack)

    def settled(self, name: str, seconds: float = 60) -> str:
        """The state of a stack once nothing is in progress."""

        def look() -> str:
            status = str(self.stack(name)["StackStatus"])
            return "" if status.endswith("_IN_PROGRESS") else status

        return str(eventually(look, seconds))

    def stack(self, name: str) -> dict[str, Any]:
        """DescribeStacks of one stack, by our name or by its id."""
        real = name if name.startswith("arn:") else self.name(name)
        found: dict[str, Any] = self.api.describe_stacks(StackName=real)["Stacks"][0]
        return found

    def outputs(self, name: str) -> dict[str, str]:
        """The stack's outputs."""
        return {one["OutputKey"]: one["OutputValue"] for one in self.stack(name).get("Outputs", ())}

    def resources(self, name: str) -> dict[str, str]:
        """{logical id: physical id}"""
        held = self.api.describe_stack_resources(StackName=self.name(name))["StackResources"]
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in held}

    def events(self, name: str) -> list[tuple[str, str]]:
        """(logical id, status) of all that happened to the stack's resources, oldest first."""
        return [(one["LogicalResourceId"], one["ResourceStatus"]) for one in self._history(name)]

    def reason(self, name: str, logical_id: str) -> str:
        """The latest reason that the events give for a resource."""
        told = [one for one in self._history(name) if one["LogicalResourceId"] == logical_id]
        return next(str(one["ResourceStatusReason"]) for one in reversed(told) if "ResourceStatusReason" in one)

    def _history(self, name: str) -> list[dict[str, Any]]:
        stack = self.stack(name)["StackId"]
        held: list[dict[str, Any]] = self.api.describe_stack_events(StackName=stack)["StackEvents"]
        return [one for one in reversed(held) if one["PhysicalResourceId"] != stack]

    @staticmethod
    def _split(resources: Mapping[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        sections = {key: more.pop(key) for key in ("Parameters", "Outputs", "Conditions", "Mappings") if key in more}
        given = more.pop("values", {})
        return {
            "TemplateBody": json.dumps({"Resources": dict(resources), **sections}),
            "Parameters": [
                {"ParameterKey": key, **({"UsePreviousValue": True} if value is None else {"ParameterValue": value})}
                for key, value in given.items()
            ],
            **more,
        }

    def clean(self) -> None:
        """Delete what the test made."""
        for name in reversed(self._made):
            try:
                self.api.update_termination_protection(StackName=self.name(name), EnableTerminationProtection=False)
                self.delete(name)
            except ClientError:
                continue


def refused(call: Callable[[], Any]) -> str:
    """The message with which `call` is refused."""
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Message"])


def parameter(value: Any = "v", **more: Any) -> dict[str, Any]:
    """The cheapest resource there is: a parameter of Systems Manager."""
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}, **more}


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A running stand-in, in which images of `fake-serving` are served by a small server."""
    folder = tmp_path_factory.mktemp("stand-in")
    program = (str(Path(__file__).with_name("served.py")),)
    with stand_in(region=REGION, state_dir=folder, root=ROOT, program=program) as running:
        yield running


@pytest.fixture
def stacks(aws: StandIn) -> Iterator[Stacks]:
    """Stacks that are gone when the test ends."""
    made = Stacks(aws)
    yield made
    made.clean()
