"""Which version serves: endpoint → configuration → model → package → the weights that the package was made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import error_code
from operations.versions.store import MANIFEST, PREFIX
from settings import Settings

UNKNOWN = "unknown"
"""Stands for the version of a model whose package does not say what it was made from."""


def in_service(account: Account) -> dict[str, str]:
    """{variant: version} of the sentiment endpoint, of an update on its way too; empty without an endpoint."""
    endpoint = account.parameter("sentiment", "endpoint")
    if endpoint is None:
        return {}
    try:
        description = account.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        return {}
    pending = description.get("PendingDeploymentSummary", {}).get("EndpointConfigName")
    found = dict(_of_configuration(account, description["EndpointConfigName"]))
    if pending and pending != description["EndpointConfigName"]:
        found |= {f"{variant} (next)": version for variant, version in _of_configuration(account, pending)}
    return found


def _of_configuration(account: Account, name: str) -> Iterator[tuple[str, str]]:
    sagemaker = account.client("sagemaker")
    configuration = sagemaker.describe_endpoint_config(EndpointConfigName=name)
    for variant in [*configuration["ProductionVariants"], *configuration.get("ShadowProductionVariants", [])]:
        model = sagemaker.describe_model(ModelName=variant["ModelName"])
        container = model.get("PrimaryContainer") or model["Containers"][0]
        yield variant["VariantName"], version_of_package(account, model_data(container))


def model_data(container: dict[str, Any]) -> str:
    """Where a model's container has its archive from; empty without one."""
    source = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
    return str(source or container.get("ModelDataUrl", ""))


def version_of_package(account: Account, uri: str) -> str:
    """The version inside the archive at `uri`, from the manifest beside it."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    s3 = account.client("s3")
    try:
        body = s3.get_object(Bucket=bucket, Key=f"{key.rpartition('/')[0]}/{MANIFEST}")["Body"].read()
        weights = str(json.loads(body)["inputs"]["weights"])
    except (ValueError, KeyError, TypeError):
        return UNKNOWN
    except ClientError as error:
        if error_code(error) not in ("NoSuchKey", "NoSuchBucket", "404"):
            raise
        return UNKNOWN
    # Weights that the user brought lie elsewhere: they are no version, and named by their prefix.
    return weights.removeprefix(PREFIX).rstrip("/")


def wanted(settings: Settings, account: Account) -> dict[str, str]:
    """{who wants it: version}: the settings' own, the challengers', and what the last deploy served from."""
    found: dict[str, str] = {}
    if settings.sentiment is not None:
        if settings.sentiment.version is not None:
            found["settings"] = settings.sentiment.version
        for one in settings.sentiment.endpoint.challengers:
            found[f"settings, challenger {one.name}"] = one.version
    deployed = account.parameter("sentiment", "model") or ""
    if PREFIX in deployed:
        found["last deploy"] = deployed.partition(PREFIX)[2].rstrip("/")
    return found
