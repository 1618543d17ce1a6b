"""What a SageMaker endpoint is made of: one container image, and a fleet for each variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3


@dataclass(frozen=True, kw_only=True)
class ServingImage:
    """The image that all variants run, and where their archives lie.

    :param prefix: ends in a slash; all versions of the model lie below it, so a new one changes no role
    """

    uri: str
    repository: ecr.IRepository
    bucket: s3.IBucket
    prefix: str


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Which instances, how many, and when it gets more or fewer of them.

    :param invocations_per_instance: per minute, the value to keep to
    :param cpu_target_percent: of all vCPUs, the value to keep to
    """

    instance_type: str
    minimum: int
    initial: int
    maximum: int
    invocations_per_instance: float
    cpu_target_percent: int
    scale_in_cooldown_seconds: int
    scale_out_cooldown_seconds: int
    health_check_timeout_seconds: int
    model_download_timeout_seconds: int

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.initial <= self.maximum:
            raise ValueError(
                f"1 <= minimum ({self.minimum}) <= initial ({self.initial}) <= maximum ({self.maximum}) must hold"
            )


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One version of the model, with a fleet of its own.

    :param name: the same in every configuration of an endpoint: an update with guardrails must find the old variant
    :param path: the archive's key in the image's bucket, below its prefix
    :param weight: its share of the traffic, next to the other variants' weights
    """

    name: str
    path: str
    environment: Mapping[str, str]
    fleet: Fleet
    weight: float = 1


@dataclass(frozen=True, kw_only=True)
class Capture:
    """Where SageMaker keeps requests and answers.

    :param prefix: ends in a slash; below it SageMaker sorts by endpoint, variant and hour
    :param json_types: content types that are kept as text; everything else is kept in base64
    """

    bucket: s3.IBucket
    prefix: str
    key: kms.IKey
    sampling_percent: int
    json_types: tuple[str, ...] = ("application/json",)
