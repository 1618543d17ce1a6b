"""Wait conditions, custom resources and CDK's metadata."""

from __future__ import annotations

import json
import uuid
from typing import Any, ClassVar

from stand_in.cloudformation.registry import Context, Created, Properties, Refused, Resource, ResourceFailed, register

LONGEST_WAIT_SECONDS = 43_200
"""A wait condition's longest timeout (CloudFormation template reference)."""
CUSTOM_RESOURCE_SECONDS = 3_600
"""How long CloudFormation waits for a custom resource at most (ServiceTimeout's default)."""


@register
class WaitConditionHandle(Resource):
    """Ref gives the URL that signals are PUT to."""

    type_name = "AWS::CloudFormation::WaitConditionHandle"
    properties: ClassVar[frozenset[str]] = frozenset()

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        return Created(physical_id=ctx.mailbox.open("wait"))

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        ctx.mailbox.close(physical_id)

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        return {}


@register
class WaitCondition(Resource):
    """Complete once Count signals have arrived at the handle."""

    type_name = "AWS::CloudFormation::WaitCondition"
    properties = frozenset({"Count", "Handle", "Timeout"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        timeout, count = int(props["Timeout"]), int(props.get("Count", 1))
        if timeout > LONGEST_WAIT_SECONDS:
            raise ResourceFailed(f"Timeout {timeout} is longer than {LONGEST_WAIT_SECONDS} seconds")
        signals = ctx.mailbox.wait(props["Handle"], count=count, seconds=timeout, cancelled=ctx.cancelled)
        for signal in signals:
            if signal.get("Status") == "FAILURE":
                unique = signal.get("UniqueId", "")
                raise ResourceFailed(
                    f"WaitCondition received failed message: '{signal.get('Reason', '')}' for uniqueId: {unique}"
                )
        if len(signals) < count:
            if ctx.cancelled.is_set():
                raise ResourceFailed("cancelled")
            raise ResourceFailed(f"WaitCondition timed out. Received {len(signals)} conditions when expecting {count}")
        data = json.dumps({signal.get("UniqueId", ""): signal.get("Data", "") for signal in signals})
        return Created(physical_id=f"{ctx.stack_id}/{logical_id}/{uuid.uuid4()}", attributes={"Data": data})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        raise Refused("Update of resource type AWS::CloudFormation::WaitCondition is not supported")

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        """Nothing exists beside the handle."""

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        return {}


class _NoAnswer(ResourceFailed):
    """The function did not say how it went."""


@register
class CustomResource(Resource):
    """Sends CloudFormation's request to a Lambda function, which answers with a PUT to ResponseURL."""

    type_name = "AWS::CloudFormation::CustomResource"
    properties: ClassVar[frozenset[str]] = frozenset()
    replace_on = frozenset({"ServiceToken"})
    renames = True

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        try:
            return self._ask(ctx, "Create", props)
        except _NoAnswer:
            # As on AWS the rollback asks for deletion all the same: nobody knows how far the function came.
            ctx.made(ctx.generate_name(logical_id))
            raise

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        return self._ask(ctx, "Update", new, PhysicalResourceId=physical_id, OldResourceProperties=_handed_over(old))

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        self._ask(ctx, "Delete", props, PhysicalResourceId=physical_id)

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        return {}

    @staticmethod
    def _ask(ctx: Context, request: str, props: Properties, **more: Any) -> Created:
        url = ctx.mailbox.open("cfn-response")
        event = {
            "RequestType": request,
            "ResponseURL": url,
            "StackId": ctx.stack_id,
            "RequestId": str(uuid.uuid4()),
            "ResourceType": ctx.resource_type,
            "LogicalResourceId": ctx.logical_id,
            "ResourceProperties": _handed_over(props),
        } | more
        seconds = float(props.get("ServiceTimeout", CUSTOM_RESOURCE_SECONDS))
        try:
            result = ctx.invoke_lambda(props["ServiceToken"], event)
            if isinstance(result, dict) and "errorMessage" in result and not ctx.mailbox.messages(url):
                raise _NoAnswer(f"the function ended without an answer: {result['errorMessage']}")
            answers = ctx.mailbox.wait(url, count=1, seconds=seconds, cancelled=ctx.cancelled)
        finally:
            ctx.mailbox.close(url)
        if not answers:
            raise _NoAnswer("cancelled" if ctx.cancelled.is_set() else f"no answer within {seconds:.0f} s")
        answer = answers[0]
        if answer["Status"] != "SUCCESS":
            if request == "Create" and answer.get("PhysicalResourceId"):
                ctx.made(answer["PhysicalResourceId"])
            raise ResourceFailed(
                f"Received response status [FAILED] from custom resource. Message returned: {answer.get('Reason')}"
            )
        return Created(physical_id=answer["PhysicalResourceId"], attributes=answer.get("Data") or {})


def _handed_over(props: Properties) -> Any:
    return texts({key: value for key, value in props.items() if key != "ServiceTimeout"})


def texts(value: Any) -> Any:
    """Scalars as text, as CloudFormation hands them to custom resources."""
    if isinstance(value, dict):
        return {key: texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [texts(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


@register
class CdkMetadata(Resource):
    """Usage analytics of CDK; our app turns it off."""

    type_name = "AWS::CDK::Metadata"
    properties = frozenset({"Analytics"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        return Created(physical_id=logical_id)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        """There is nothing."""

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        return {}
