"""The model servers of one endpoint configuration: found, started, proved by an invocation, ended."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from moto.sagemaker.models import sagemaker_backends

from stand_in.environment import ACCOUNT
from stand_in.executor import direct, torchserve, triton_endpoint
from stand_in.executor.endpoint_fleet import Variant, stop_server
from stand_in.executor.java import NoJava
from stand_in.executor.servers import CannotServe, Container, ModelServer, NotReady
from stand_in.executor.site import Site
from stand_in.executor.state import ProcessState

STARTUP_SECONDS = 300.0
"""How long a server may take when its variant sets no ContainerStartupHealthCheckTimeoutInSeconds."""
ECR_IMAGE = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(.+)")


class CannotDeploy(Exception):
    """A variant cannot be put into service; the message is the endpoint's FailureReason."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """How a program of the table in `direct` is started, and how its log says that the model is broken."""

    start: Callable[..., ModelServer]
    hopeless: tuple[str, int] | None = None


PROGRAMS = {
    "TorchServe": Program(start=torchserve.start, hopeless=torchserve.HOPELESS),
    "Triton": Program(start=triton_endpoint.start),
}


def start(
    site: Site,
    *,
    region: str,
    endpoint: str,
    variants: Sequence[Mapping[str, Any]],
    cancelled: threading.Event,
    program_of: Callable[[str], Program],
) -> list[Variant]:
    """Start a server for each variant and wait until each has answered an invocation. Raises CannotDeploy.

    :param program_of: how a program of the table in `direct` is started in the present mode
    """
    ready: list[Variant] = []
    try:
        for variant in variants:
            server = _start(site, region, endpoint, variant, cancelled, program_of)
            ready.append(Variant(name=str(variant["VariantName"]), server=server))
    except BaseException:
        for one in ready:
            stop_server(site, one.server)
        raise
    return ready


def container_of(region: str, variant: Mapping[str, Any]) -> Container:
    """What the variant's Model says about its first container. Raises CannotDeploy."""
    name = str(variant.get("ModelName", ""))
    model = sagemaker_backends[ACCOUNT][region]._models.get(name)
    if model is None:
        raise CannotDeploy(f'Could not find model "arn:aws:sagemaker:{region}:{ACCOUNT}:model/{name}".')
    containers = [*([model.primary_container] if model.primary_container else []), *model.containers]
    if not containers:
        raise CannotDeploy(f"model {name} has no container")
    container = containers[0]
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    caching = container.get("MultiModelConfig", {}).get("ModelCacheSetting", "Enabled")
    return Container(
        model=name,
        image=str(container.get("Image", "")),
        model_data_url=str(container.get("ModelDataUrl") or source.get("S3Uri") or ""),
        role=str(model.execution_role_arn or ""),
        environment={key: str(value) for key, value in (container.get("Environment") or {}).items()},
        variant=str(variant.get("VariantName", "")),
        multi_model=container.get("Mode") == "MultiModel",
        cached=caching == "Enabled",
    )


def _start(
    site: Site,
    region: str,
    endpoint: str,
    variant: Mapping[str, Any],
    cancelled: threading.Event,
    program_of: Callable[[str], Program],
) -> ModelServer:
    container = container_of(region, variant)
    require_image(site, container.image, role=container.role)
    _require_model_data(site, region, container)
    try:
        line = direct.server(container.image)
        program = program_of(line.program)
        server = program.start(site, region=region, endpoint=endpoint, container=container)
    except (direct.NoDirectMode, CannotServe, NoJava, OSError) as error:
        raise CannotDeploy(str(error)) from error
    what = f"endpoint {endpoint} ({server.program})"
    site.registry.process_started(ProcessState(pid=server.child.pid, what=what, port=server.port))
    seconds = float(variant.get("ContainerStartupHealthCheckTimeoutInSeconds") or STARTUP_SECONDS)
    try:
        server.wait_until_ready(line.probe, seconds=seconds, hopeless=program.hopeless, cancelled=cancelled)
    except NotReady as error:
        stop_server(site, server)
        raise CannotDeploy(
            f"The primary container for production variant {variant['VariantName']} did not pass the ping health "
            f"check. Please check CloudWatch logs for this endpoint. Stand-in: {error}"
        ) from error
    except BaseException:
        stop_server(site, server)
        raise
    return server


def require_image(site: Site, image: str, *, role: str) -> None:
    """An image of our own account must be in its repository; what other accounts hold cannot be known here.

    `role` is that of who pulls it. Raises CannotDeploy.
    """
    match = ECR_IMAGE.fullmatch(image)
    if match is None or match[1] != ACCOUNT:
        return
    repository, at, digest = match[3].partition("@")
    repository, _, tag = repository.partition(":")
    wanted = {"imageDigest": digest} if at else {"imageTag": tag or "latest"}
    try:
        found = site.client("ecr", match[2], role=role).batch_get_image(repositoryName=repository, imageIds=[wanted])
    except ClientError as error:
        raise CannotDeploy(f"Requested image {image} not found. ({error})") from error
    if not found.get("images"):
        raise CannotDeploy(f"Requested image {image} not found.")


def _require_model_data(site: Site, region: str, container: Container) -> None:
    url = container.model_data_url
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not url.startswith("s3://") or key.endswith("/") or not key:
        return  # none, or a prefix, which may be empty
    try:
        site.client("s3", region, role=container.role).head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        raise CannotDeploy(
            f'Failed to download model data for container "container_1" from URL: "{url}". Please ensure that there '
            "is an object located at the URL and that the role passed to CreateModel has permissions to download it. "
            f"({error})"
        ) from error
