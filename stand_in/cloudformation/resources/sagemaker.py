"""SageMaker: models and endpoint configurations."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from settings.hardware import ML_TYPES
from stand_in.cloudformation.registry import (
    Context,
    Created,
    Properties,
    Resource,
    ResourceFailed,
    register,
)
from stand_in.cloudformation.shapes import own_tags, tag_changes, unless_gone

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
"""SageMaker refuses OCI manifests and image indexes: "Unsupported manifest media type"."""


def gone(call: Any) -> Any:
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
        change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes={"ModelName": physical_id.rpartition("/")[2]})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        name = physical_id.rpartition("/")[2]
        gone(lambda: ctx.client("sagemaker").delete_model(ModelName=name))

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


def change_tags(ctx: Context, arn: str, old: Properties, new: Properties) -> None:
    """Make the tags of `old` those of `new`."""
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
        change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes={"EndpointConfigName": physical_id.rpartition("/")[2]})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        name = physical_id.rpartition("/")[2]
        gone(lambda: ctx.client("sagemaker").delete_endpoint_config(EndpointConfigName=name))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("sagemaker")
        held = client.describe_endpoint_config(EndpointConfigName=physical_id.rpartition("/")[2])
        tags = client.list_tags(ResourceArn=physical_id)["Tags"]
        return {key: value for key, value in held.items() if key in self.properties} | {"Tags": own_tags(tags)}
