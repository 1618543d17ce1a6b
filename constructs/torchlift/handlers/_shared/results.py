"""Whether a job's result is there: a manifest in S3, or a tag in ECR."""

from __future__ import annotations

from typing import Any

import boto3

DOCKER_SCHEMA_2 = "application/vnd.docker.distribution.manifest.v2+json"


def result_exists(uri: str) -> bool:
    """Tell whether the result at ``uri`` (``s3://bucket/prefix/`` or ``ecr://registry/repository:tag``) is complete.

    A prefix without its manifest, which is written last, is no result.

    :raises ValueError: the URI is neither
    :raises botocore.exceptions.ClientError: AWS refuses to say
    """
    scheme, _, rest = uri.partition("://")
    if scheme == "s3":
        bucket, _, prefix = rest.partition("/")
        return _manifest_exists(bucket, f"{prefix}manifest.json")
    if scheme == "ecr":
        registry, _, name = rest.partition("/")
        repository, _, tag = name.rpartition(":")
        return _tag_exists(registry, repository, tag)
    raise ValueError(f"'{uri}' is neither s3:// nor ecr://")


def hash_of(uri: str) -> str:
    """Return the content hash that a result's URI ends in."""
    return uri.rstrip("/").replace(":", "/").rsplit("/", 1)[-1]


def _manifest_exists(bucket: str, key: str) -> bool:
    # A listing needs no permission to decrypt, and answers "no" where a HEAD would answer 403.
    s3: Any = boto3.client("s3")
    page = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return any(item["Key"] == key and item["Size"] > 0 for item in page.get("Contents", []))


def _tag_exists(registry: str, repository: str, tag: str) -> bool:
    account, _, _, region = registry.split(".")[:4]
    ecr: Any = boto3.client("ecr", region_name=region)
    try:
        found = ecr.describe_images(registryId=account, repositoryName=repository, imageIds=[{"imageTag": tag}])
    except ecr.exceptions.ImageNotFoundException:
        return False
    # What was pushed in another format stays under its immutable tag, and is of no use: SageMaker refuses it.
    return any(image.get("imageManifestMediaType") == DOCKER_SCHEMA_2 for image in found["imageDetails"])
