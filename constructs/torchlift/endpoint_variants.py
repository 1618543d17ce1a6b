"""What a SageMaker endpoint is made of: one container image, and a fleet for each variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from settings.hardware import ml_instance


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
    :param gpu_target_percent: of all GPUs, the value to keep to; None for types without
    :param concurrent_requests: of one instance, the value to keep to besides, counted every ten seconds
    :param ami_version: the instances' AMI, by SageMaker's name; types with GPUs must have one, since what SageMaker
        takes otherwise has a driver that is years old
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
    gpu_target_percent: int | None = None
    concurrent_requests: float | None = None
    ami_version: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.initial <= self.maximum:
            raise ValueError(
                f"1 <= minimum ({self.minimum}) <= initial ({self.initial}) <= maximum ({self.maximum}) must hold"
            )


@dataclass(frozen=True, kw_only=True)
class ManyModels:
    """A container that serves every archive below a prefix, each loaded on first use.

    :param caching: models stay in memory until others need it
    :param loading_wait_ms: that requests may wait for models before an alarm speaks
    :param cache_hit_percent: share of requests that should find their model loaded
    """

    caching: bool
    loading_wait_ms: int
    cache_hit_percent: int


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One version of the model, with a fleet of its own.

    :param name: the same in every configuration of an endpoint: an update with guardrails must find the old variant
    :param path: the archive's key in the image's bucket, below its prefix; with `many`, a prefix that ends in a slash
    :param weight: its share of the traffic, next to the other variants' weights
    :param many: makes it a multi-model container
    """

    name: str
    path: str
    environment: Mapping[str, str]
    fleet: Fleet
    weight: float = 1
    many: ManyModels | None = None

    def __post_init__(self) -> None:
        if self.path.endswith("/") != (self.many is not None):
            raise ValueError(f"'{self.path}': many models are a prefix ending in a slash, one is an archive's key")

    @property
    def configuration(self) -> dict[str, object]:
        """All that decides over the variant's model and configuration."""
        fleet = self.fleet
        return {
            "name": self.name,
            "path": self.path,
            "environment": dict(self.environment),
            "weight": self.weight,
            "instance_type": fleet.instance_type,
            "instances": fleet.initial,
            "timeouts": [fleet.health_check_timeout_seconds, fleet.model_download_timeout_seconds],
            **({"ami": fleet.ami_version} if fleet.ami_version else {}),
            **({"many": {"caching": self.many.caching}} if self.many else {}),
        }


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


def check_variants(variants: Sequence[Variant], capture: Capture | None) -> None:
    """Refuse what SageMaker would refuse, or run wrongly. Raises ValueError."""
    for variant in variants:
        gpus = ml_instance(variant.fleet.instance_type).gpus
        if gpus and not (variant.fleet.ami_version and variant.fleet.gpu_target_percent):
            raise ValueError(f"{variant.name}: {variant.fleet.instance_type} has GPUs: give ami_version and GPU target")
        if variant.many is None:
            continue
        if len(variants) > 1 or capture is not None:
            raise ValueError(f"{variant.name}: many models stand alone behind an endpoint, and cannot be captured")
        if variant.fleet.concurrent_requests is not None:
            raise ValueError(f"{variant.name}: SageMaker counts no concurrent requests of multi-model endpoints")
