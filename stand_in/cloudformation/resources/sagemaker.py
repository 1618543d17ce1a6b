"""SageMaker: models and endpoint configurations."""

from __future__ import annotations

from typing import Any, ClassVar

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
from stand_in.executor.direct_image import MANIFEST


def gone(call: Any) -> Any:
    """SageMaker says that something does not exist with a ValidationException."""
    try:
        return unless_gone(call)
    except ClientError as error:
        text = error.response["Error"]["Message"]
        if "ould not find" in text or "does not exist" in text:
            return None
        raise


class Unchangeable(Resource):
    """Known by its ARN, which ends in its name; only tags change in place."""

    kind: ClassVar[str]
    """In the names of the API's calls."""
    name_key: ClassVar[str]
    """The name's key, in the API and for GetAtt."""

    def named(self, physical_id: str) -> dict[str, str]:
        """The argument that names the thing in the API's calls."""
        return {self.name_key: physical_id.rpartition("/")[2]}

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes=self.named(physical_id))

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        call = getattr(ctx.client("sagemaker"), f"delete_{self.kind}")
        gone(lambda: call(**self.named(physical_id)))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("sagemaker")
        held = getattr(client, f"describe_{self.kind}")(**self.named(physical_id))
        tags = client.list_tags(ResourceArn=physical_id)["Tags"]
        return {key: value for key, value in held.items() if key in self.properties} | {"Tags": own_tags(tags)}


@register
class Model(Unchangeable):
    """A model: container image, model data, role."""

    type_name = "AWS::SageMaker::Model"
    kind, name_key = "model", "ModelName"
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
    # OCI manifests and image indexes are refused.
    if media_type != MANIFEST:
        raise ResourceFailed(f"Unsupported manifest media type {media_type} for image {image}.")


def _check_data(ctx: Context, container: Properties) -> None:
    url = container.get("ModelDataUrl", "")
    if container.get("Mode") == "MultiModel":
        if not url.endswith("/"):
            raise ResourceFailed(f"ModelDataUrl of a MultiModel container must be a prefix, with a slash: {url}")
        return
    if not url:
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


def _ami_versions(ctx: Context) -> frozenset[str]:
    """AMIs of hosting instances, as botocore knows them."""
    return frozenset(ctx.client("sagemaker").meta.service_model.shape_for("ProductionVariantInferenceAmiVersion").enum)


@register
class EndpointConfig(Unchangeable):
    """Variants of an endpoint."""

    type_name = "AWS::SageMaker::EndpointConfig"
    kind, name_key = "endpoint_config", "EndpointConfigName"
    properties = frozenset({"DataCaptureConfig", "EndpointConfigName", "KmsKeyId", "ProductionVariants", "Tags"})
    replace_on = properties - {"Tags"}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        if props.get("DataCaptureConfig", {}).get("EnableCapture"):
            _check_single_models(ctx, props["ProductionVariants"])
        for variant in props["ProductionVariants"]:
            hardware = ML_TYPES.get(variant["InstanceType"])
            if variant["InstanceType"] not in _hosting_types(ctx):
                raise ResourceFailed(
                    f"1 validation error detected: Value '{variant['InstanceType']}' at 'instanceType' failed to "
                    "satisfy constraint: Member must satisfy enum value set"
                )
            ami = variant.get("InferenceAmiVersion")
            if ami is not None and ami not in _ami_versions(ctx):
                raise ResourceFailed(
                    f"1 validation error detected: Value '{ami}' at 'inferenceAmiVersion' failed to satisfy "
                    "constraint: Member must satisfy enum value set"
                )
            if "KmsKeyId" in props and hardware is not None and hardware.local_nvme:
                raise ResourceFailed(
                    f"KmsKeyId is not supported for instance type {variant['InstanceType']}: its storage is local NVMe"
                )
        name = props.get("EndpointConfigName") or ctx.generate_name(logical_id)[-63:].lstrip("-")
        made = ctx.client("sagemaker").create_endpoint_config(**(props | {"EndpointConfigName": name}))
        return Created(physical_id=made["EndpointConfigArn"], attributes={"EndpointConfigName": name})


def _check_single_models(ctx: Context, variants: list[Properties]) -> None:
    """Data capture does not work with multi-model endpoints."""
    for name in (variant["ModelName"] for variant in variants):
        container = ctx.client("sagemaker").describe_model(ModelName=name)["PrimaryContainer"]
        if container.get("Mode") == "MultiModel":
            raise ResourceFailed(f"Data capture is not supported for multi-model endpoints: model {name} is MultiModel")
