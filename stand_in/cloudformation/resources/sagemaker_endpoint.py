"""SageMaker: endpoints, and what may not be done to them."""

from __future__ import annotations

import time

from stand_in.cloudformation.registry import (
    Context,
    Created,
    Properties,
    Resource,
    ResourceFailed,
    changed,
    register,
)
from stand_in.cloudformation.resources import sagemaker_endpoint_checks as checks
from stand_in.cloudformation.resources.sagemaker import change_tags, gone
from stand_in.cloudformation.shapes import own_tags
from stand_in.executor.endpoint_updates import ROLLED_BACK

POLL_SECONDS = 0.25
LONGEST_CREATION_SECONDS = 3_600


@register
class Endpoint(Resource):
    """An endpoint; complete when it is in service."""

    type_name = "AWS::SageMaker::Endpoint"
    properties = frozenset(
        {
            "DeploymentConfig",
            "EndpointConfigName",
            "EndpointName",
            "ExcludeRetainedVariantProperties",
            "RetainAllVariantProperties",
            "Tags",
        }
    )
    replace_on = frozenset({"EndpointName"})
    _how = ("DeploymentConfig", "ExcludeRetainedVariantProperties", "RetainAllVariantProperties")

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("EndpointName") or ctx.generate_name(logical_id)[-63:].lstrip("-")
        checks.check_deployment(ctx, props)
        # The two switches are no part of CreateEndpoint: they say how an update goes.
        api = {key: value for key, value in props.items() if key not in self._how[1:]} | {"EndpointName": name}
        arn = ctx.client("sagemaker").create_endpoint(**api)["EndpointArn"]
        ctx.made(arn)
        self._wait(ctx, name)
        return Created(physical_id=arn, attributes={"EndpointName": name})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        name = physical_id.rpartition("/")[2]
        client = ctx.client("sagemaker")
        checks.check_deployment(ctx, new)
        checks.check_update(ctx, client.describe_endpoint(EndpointName=name), new)
        differing = changed(old, new) & {"EndpointConfigName", *self._how}
        # A failed update left the endpoint as it was: the rollback finds nothing to do.
        there = client.describe_endpoint(EndpointName=name)["EndpointConfigName"] == new["EndpointConfigName"]
        if differing and not (there and differing == {"EndpointConfigName"}):
            how = {key: new[key] for key in self._how if key in new}
            config = {"EndpointConfigName": new["EndpointConfigName"]}
            client.update_endpoint(EndpointName=name, **config, **how)
            self._wait(ctx, name)
            held = client.describe_endpoint(EndpointName=name)
            reason = held.get("FailureReason", "no reason given")
            # The endpoint is in service again, with its old configuration. After alarms have undone an update,
            # infrastructure tools were seen to call that success, and what CloudFormation says is not documented: the
            # stand-in takes the worse case, so that only what looks at the endpoint itself notices.
            if held["EndpointConfigName"] != new["EndpointConfigName"] and not reason.startswith(ROLLED_BACK):
                raise ResourceFailed(f"The endpoint kept its configuration {held['EndpointConfigName']}: {reason}")
        change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes={"EndpointName": name})

    @staticmethod
    def _wait(ctx: Context, name: str) -> None:
        client = ctx.client("sagemaker")
        deadline = time.monotonic() + LONGEST_CREATION_SECONDS
        while time.monotonic() < deadline:
            held = client.describe_endpoint(EndpointName=name)
            if held["EndpointStatus"] == "InService":
                return
            if held["EndpointStatus"] == "Failed":
                raise ResourceFailed(f"Endpoint {name} failed: {held.get('FailureReason', 'no reason given')}")
            if ctx.cancelled.is_set():
                raise ResourceFailed("cancelled")
            time.sleep(POLL_SECONDS)
        raise ResourceFailed(f"Endpoint {name} is not in service after {LONGEST_CREATION_SECONDS} s")

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        name = physical_id.rpartition("/")[2]
        gone(lambda: ctx.client("sagemaker").delete_endpoint(EndpointName=name))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("sagemaker")
        held = client.describe_endpoint(EndpointName=physical_id.rpartition("/")[2])
        found = {key: value for key, value in held.items() if key in self.properties}
        if "LastDeploymentConfig" in held:
            found["DeploymentConfig"] = held["LastDeploymentConfig"]
        return found | {"Tags": own_tags(client.list_tags(ResourceArn=physical_id)["Tags"])}
