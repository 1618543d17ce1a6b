"""Endpoints whose containers are our small server: shorthands for making, asking and updating them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.executor.conftest import ROLE, World, eventually

IMAGE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/fake-serving:1"


def configure(world: World, name: str, mode: str = "one", *, image: str = IMAGE, **container: Any) -> str:
    """A model whose server answers with `mode`, and a configuration with one variant "main"."""
    return configure_variants(world, name, {"main": {}}, modes={"main": mode}, container={"Image": image, **container})


def configure_variants(
    world: World,
    name: str,
    variants: Mapping[str, Mapping[str, Any]],
    *,
    modes: Mapping[str, str],
    container: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | None = None,
    **config: Any,
) -> str:
    """Variants by name, with what each says beside the defaults; a server answers with its variant's mode."""
    client = world.client("sagemaker")
    made = []
    for variant, more in variants.items():
        model = name if len(variants) == 1 else f"{name}-{variant}"
        described = {"Image": IMAGE, "Environment": {"MODE": modes[variant]}, **(container or {})}
        place = {"VpcConfig": network} if network else {}
        client.create_model(ModelName=model, PrimaryContainer=described, ExecutionRoleArn=ROLE, **place)
        made.append(
            {
                "VariantName": variant, "ModelName": model, "InstanceType": "ml.c5.large", "InitialInstanceCount": 1,
                "ContainerStartupHealthCheckTimeoutInSeconds": 60, **more,
            }
        )  # fmt: skip
    client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=made, **config)
    return name


def create(world: World, config: str) -> None:
    """Endpoint "e"."""
    world.client("sagemaker").create_endpoint(EndpointName="e", EndpointConfigName=config)


def update(world: World, config: str, **how: Any) -> Any:
    """Update "e", and wait for its end."""
    world.client("sagemaker").update_endpoint(EndpointName="e", EndpointConfigName=config, **how)
    return settled(world)


def settled(world: World) -> Any:
    """The endpoint, once it is not in progress."""

    def look() -> Any:
        found = world.client("sagemaker").describe_endpoint(EndpointName="e")
        return found["EndpointStatus"] not in ("Creating", "Updating") and found

    return eventually(look)


def invoke(world: World, body: bytes, **options: Any) -> Any:
    """Ask "e"."""
    return world.client("sagemaker-runtime").invoke_endpoint(EndpointName="e", Body=body, **options)


def refused(world: World, body: bytes) -> dict[str, Any]:
    """The error with which "e" answers."""
    with pytest.raises(ClientError) as caught:
        invoke(world, body)
    return dict(caught.value.response)
