"""The model servers of one endpoint configuration: found, started, proved by an invocation, ended."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from botocore.exceptions import ClientError
from moto.sagemaker.models import sagemaker_backends

from stand_in.environment import ACCOUNT
from stand_in.executor import direct, torchserve
from stand_in.executor.java import NoJava
from stand_in.executor.servers import INVOCATION_SECONDS, Container, ModelServer, NotReady
from stand_in.executor.site import Site
from stand_in.executor.state import ProcessState
from stand_in.executor.together import together

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


PROGRAMS = {"TorchServe": Program(start=torchserve.start, hopeless=torchserve.HOPELESS)}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A production variant whose server answers."""

    name: str
    weight: float
    server: ModelServer


class ServerSet:
    """All variants of a configuration; `stop()` lets invocations in progress finish first."""

    def __init__(self, site: Site, variants: Sequence[Variant]) -> None:
        self._site = site
        self.variants = tuple(variants)
        self._busy = 0
        self._changed = threading.Condition()

    def choose(self, wanted: str = "") -> Variant | None:
        """The variant of that name, or one by weight; None when there is no such variant."""
        if wanted:
            return next((one for one in self.variants if one.name == wanted), None)
        weights = [one.weight for one in self.variants]
        return random.choices(self.variants, weights if sum(weights) > 0 else None)[0]

    def __enter__(self) -> ServerSet:
        with self._changed:
            self._busy += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def stop(self, *, drain_s: float = INVOCATION_SECONDS) -> None:
        """End the servers, at the latest after `drain_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, drain_s)
        together(partial(_stop, self._site, variant.server) for variant in self.variants)


def start(
    site: Site, *, region: str, endpoint: str, variants: Sequence[Mapping[str, Any]], cancelled: threading.Event
) -> ServerSet:
    """Start a server for each variant and wait until each has answered an invocation. Raises CannotDeploy."""
    ready: list[Variant] = []
    try:
        for variant in variants:
            server = _start(site, region, endpoint, variant, cancelled)
            weight = float(variant.get("InitialVariantWeight", 1))
            ready.append(Variant(name=str(variant["VariantName"]), weight=weight, server=server))
    except BaseException:
        for one in ready:
            _stop(site, one.server)
        raise
    return ServerSet(site, ready)


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
    return Container(
        model=name,
        image=str(container.get("Image", "")),
        model_data_url=str(container.get("ModelDataUrl") or source.get("S3Uri") or ""),
        environment={key: str(value) for key, value in (container.get("Environment") or {}).items()},
    )


def _start(
    site: Site, region: str, endpoint: str, variant: Mapping[str, Any], cancelled: threading.Event
) -> ModelServer:
    container = container_of(region, variant)
    _require_image(site, container.image)
    _require_model_data(site, region, container.model_data_url)
    try:
        line = direct.server(container.image)
        program = PROGRAMS[line.program]
        server = program.start(site, region=region, endpoint=endpoint, container=container)
    except (direct.NoDirectMode, torchserve.CannotServe, NoJava, OSError) as error:
        raise CannotDeploy(str(error)) from error
    what = f"endpoint {endpoint} ({server.program})"
    site.registry.process_started(ProcessState(pid=server.child.pid, what=what, port=server.port))
    seconds = float(variant.get("ContainerStartupHealthCheckTimeoutInSeconds") or STARTUP_SECONDS)
    try:
        server.wait_until_ready(line.probe, seconds=seconds, hopeless=program.hopeless, cancelled=cancelled)
    except NotReady as error:
        _stop(site, server)
        raise CannotDeploy(
            f"The primary container for production variant {variant['VariantName']} did not pass the ping health "
            f"check. Please check CloudWatch logs for this endpoint. Stand-in: {error}"
        ) from error
    except BaseException:
        _stop(site, server)
        raise
    return server


def _stop(site: Site, server: ModelServer) -> None:
    server.stop()
    site.registry.process_ended(server.child.pid)


def _require_image(site: Site, image: str) -> None:
    """An image of our own account must be in its repository; what other accounts hold cannot be known here."""
    match = ECR_IMAGE.fullmatch(image)
    if match is None or match[1] != ACCOUNT:
        return
    repository, at, digest = match[3].partition("@")
    repository, _, tag = repository.partition(":")
    wanted = {"imageDigest": digest} if at else {"imageTag": tag or "latest"}
    try:
        found = site.client("ecr", match[2]).batch_get_image(repositoryName=repository, imageIds=[wanted])
    except ClientError as error:
        raise CannotDeploy(f"Requested image {image} not found. ({error})") from error
    if not found.get("images"):
        raise CannotDeploy(f"Requested image {image} not found.")


def _require_model_data(site: Site, region: str, url: str) -> None:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not url.startswith("s3://") or key.endswith("/") or not key:
        return  # none, or a prefix, which may be empty
    try:
        site.client("s3", region).head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        raise CannotDeploy(
            f'Failed to download model data for container "container_1" from URL: "{url}". Please ensure that there '
            "is an object located at the URL and that the role passed to CreateModel has permissions to download it. "
            f"({error})"
        ) from error
