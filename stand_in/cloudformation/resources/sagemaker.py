"""SageMaker: models, endpoint configurations, endpoints."""

from __future__ import annotations

import time
from typing import Any

from botocore.exceptions import ClientError

from settings.hardware import ML_TYPES
from stand_in.cloudformation.registry import (
    Context,
    Created,
    Properties,
    Refused,
    Resource,
    ResourceFailed,
    changed,
    register,
)
from stand_in.cloudformation.shapes import own_tags, tag_changes, unless_gone

POLL_SECONDS = 0.25
LONGEST_CREATION_SECONDS = 3_600
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
"""SageMaker refuses OCI manifests and image indexes: "Unsupported manifest media type"."""


def _gone(call: Any) -> Any:
    """SageMaker says that something does not exist with a ValidationException."""
    try:
        return unless_gone(call)
    except ClientError as error:
        text = error.response["Error"]["Message"]
        if "ould not find" in text or "does not exist" in text:
            return None
        raise


@register
class Model(Resource):
    """A model: container image, model data, role."""

    type_name = "AWS::SageMaker::Model"
    properties = frozenset(
        {
            "EnableNetworkIsolation",
            "ExecutionRoleArn",
            "ModelName",
            "PrimaryContainer",
            "Tags",
            "VpcConfig",
        }
    )
    replace_on = properties - {"Tags"}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("ModelName") or ctx.generate_name(logical_id)[-63:].lstrip("-")
        _check_image(ctx, props["PrimaryContainer"]["Image"])
        _check_data(ctx, props["PrimaryContainer"])
        made = ctx.client("sagemaker").create_model(**(props | {"ModelName": name}))
        return Created(physical_id=made["ModelArn"], attributes={"ModelName": name})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        """Tags only: the rest is create-only."""
        _change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes={"ModelName": physical_id.rpartition("/")[2]})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        name = physical_id.rpartition("/")[2]
        _gone(lambda: ctx.client("sagemaker").delete_model(ModelName=name))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("sagemaker")
        held = client.describe_model(ModelName=physical_id.rpartition("/")[2])
        tags = client.list_tags(ResourceArn=physical_id)["Tags"]
        return {key: value for key, value in held.items() if key in self.properties} | {"Tags": own_tags(tags)}


def _check_image(ctx: Context, image: str) -> None:
    """An image of the own account must be there, in the only format that SageMaker takes."""
    registry, _, rest = image.partition("/")
    if not registry.startswith(f"{ctx.account}.dkr.ecr."):
        return
    repository, _, tag = rest.partition(":")
    try:
        found = ctx.client("ecr").batch_get_image(repositoryName=repository, imageIds=[{"imageTag": tag}])["images"]
    except ClientError as error:
        raise ResourceFailed(f"Could not read image {image}: {error}") from error
    if not found:
        raise ResourceFailed(f"Requested image {image} not found.")
    media_type = found[0].get("imageManifestMediaType", "")
    if media_type != DOCKER_MANIFEST:
        raise ResourceFailed(f"Unsupported manifest media type {media_type} for image {image}.")


def _check_data(ctx: Context, container: Properties) -> None:
    url = container.get("ModelDataUrl", "")
    if not url or container.get("Mode") == "MultiModel":
        return
    bucket, _, key = url.removeprefix("s3://").partition("/")
    try:
        ctx.client("s3").head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        raise ResourceFailed(f"Could not find model data at {url}.") from error


def _change_tags(ctx: Context, arn: str, old: Properties, new: Properties) -> None:
    gone, tags = tag_changes(old, new)
    if gone:
        ctx.client("sagemaker").delete_tags(ResourceArn=arn, TagKeys=gone)
    if tags:
        ctx.client("sagemaker").add_tags(ResourceArn=arn, Tags=tags)


def _hosting_types(ctx: Context) -> frozenset[str]:
    """Instance types that SageMaker hosts on, as botocore knows them; moto's own list is years old."""
    return frozenset(ctx.client("sagemaker").meta.service_model.shape_for("ProductionVariantInstanceType").enum)


@register
class EndpointConfig(Resource):
    """Variants of an endpoint."""

    type_name = "AWS::SageMaker::EndpointConfig"
    properties = frozenset({"DataCaptureConfig", "EndpointConfigName", "KmsKeyId", "ProductionVariants", "Tags"})
    replace_on = properties - {"Tags"}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        for variant in props["ProductionVariants"]:
            hardware = ML_TYPES.get(variant["InstanceType"])
            if variant["InstanceType"] not in _hosting_types(ctx):
                raise ResourceFailed(
                    f"1 validation error detected: Value '{variant['InstanceType']}' at 'instanceType' failed to "
                    "satisfy constraint: Member must satisfy enum value set"
                )
            if "KmsKeyId" in props and hardware is not None and hardware.local_nvme:
                raise ResourceFailed(
                    f"KmsKeyId is not supported for instance type {variant['InstanceType']}: its storage is local NVMe"
                )
        name = props.get("EndpointConfigName") or ctx.generate_name(logical_id)[-63:].lstrip("-")
        made = ctx.client("sagemaker").create_endpoint_config(**(props | {"EndpointConfigName": name}))
        return Created(physical_id=made["EndpointConfigArn"], attributes={"EndpointConfigName": name})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        """Tags only: the rest is create-only."""
        _change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes={"EndpointConfigName": physical_id.rpartition("/")[2]})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        name = physical_id.rpartition("/")[2]
        _gone(lambda: ctx.client("sagemaker").delete_endpoint_config(EndpointConfigName=name))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("sagemaker")
        held = client.describe_endpoint_config(EndpointConfigName=physical_id.rpartition("/")[2])
        tags = client.list_tags(ResourceArn=physical_id)["Tags"]
        return {key: value for key, value in held.items() if key in self.properties} | {"Tags": own_tags(tags)}


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
        self._check_guardrails(ctx, props)
        # The two switches are no part of CreateEndpoint: they say how an update goes.
        api = {key: value for key, value in props.items() if key not in self._how[1:]} | {"EndpointName": name}
        arn = ctx.client("sagemaker").create_endpoint(**api)["EndpointArn"]
        ctx.made(arn)
        self._wait(ctx, name)
        return Created(physical_id=arn, attributes={"EndpointName": name})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        name = physical_id.rpartition("/")[2]
        client = ctx.client("sagemaker")
        self._check_guardrails(ctx, new)
        self._check_variants(ctx, client.describe_endpoint(EndpointName=name), new)
        differing = changed(old, new) & {"EndpointConfigName", *self._how}
        # A failed update left the endpoint as it was: the rollback finds nothing to do.
        there = client.describe_endpoint(EndpointName=name)["EndpointConfigName"] == new["EndpointConfigName"]
        if differing and not (there and differing == {"EndpointConfigName"}):
            how = {key: new[key] for key in self._how if key in new}
            config = {"EndpointConfigName": new["EndpointConfigName"]}
            client.update_endpoint(EndpointName=name, **config, **how)
            self._wait(ctx, name)
            held = client.describe_endpoint(EndpointName=name)["EndpointConfigName"]
            if held != new["EndpointConfigName"]:
                reason = client.describe_endpoint(EndpointName=name).get("FailureReason", "it was rolled back")
                raise ResourceFailed(f"The endpoint kept its configuration {held}: {reason}")
        _change_tags(ctx, physical_id, old, new)
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

    @staticmethod
    def _check_guardrails(ctx: Context, props: Properties) -> None:
        """A canary is at most half of the fleet; rollback alarms must exist."""
        deployment = props.get("DeploymentConfig", {})
        routing = deployment.get("BlueGreenUpdatePolicy", {}).get("TrafficRoutingConfiguration", {})
        canary = routing.get("CanarySize", {})
        if canary.get("Type") == "CAPACITY_PERCENT" and int(canary["Value"]) > 50:
            raise Refused(f"CanarySize {canary['Value']} % is more than 50 % of the variant's capacity")
        alarms = [alarm["AlarmName"] for alarm in deployment.get("AutoRollbackConfiguration", {}).get("Alarms", ())]
        if alarms:
            held = ctx.client("cloudwatch").describe_alarms(AlarmNames=alarms)["MetricAlarms"]
            missing = sorted(set(alarms) - {alarm["AlarmName"] for alarm in held})
            if missing:
                raise Refused(f"Alarms of the auto rollback configuration do not exist: {', '.join(missing)}")

    @staticmethod
    def _check_variants(ctx: Context, held: dict[str, Any], new: Properties) -> None:
        """What UpdateEndpoint refuses of registered variants and, with a deployment configuration, of names."""
        sagemaker = ctx.client("sagemaker")

        def variants(name: str) -> dict[str, str]:
            config = sagemaker.describe_endpoint_config(EndpointConfigName=name)
            return {one["VariantName"]: one["InstanceType"] for one in config["ProductionVariants"]}

        before, after = variants(held["EndpointConfigName"]), variants(new["EndpointConfigName"])
        if "DeploymentConfig" in new and set(before) != set(after):
            raise Refused("With DeploymentConfig the variants must keep their names")
        targets = ctx.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
        scaled = {target["ResourceId"] for target in targets["ScalableTargets"]}
        for variant, instance_type in before.items():
            registered = f"endpoint/{held['EndpointName']}/variant/{variant}" in scaled
            if registered and after.get(variant) != instance_type:
                raise Refused(
                    f"Variant {variant} is registered as a scalable target: it cannot be removed and its instance "
                    f"type {instance_type} cannot change"
                )

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        name = physical_id.rpartition("/")[2]
        _gone(lambda: ctx.client("sagemaker").delete_endpoint(EndpointName=name))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("sagemaker")
        held = client.describe_endpoint(EndpointName=physical_id.rpartition("/")[2])
        found = {key: value for key, value in held.items() if key in self.properties}
        if "LastDeploymentConfig" in held:
            found["DeploymentConfig"] = held["LastDeploymentConfig"]
        return found | {"Tags": own_tags(client.list_tags(ResourceArn=physical_id)["Tags"])}
