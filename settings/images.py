"""The catalogue of base images: AWS Deep Learning Containers, in the registry of each region, pinned by tag.

Registry accounts and tags: `sagemaker.core.image_uris` data (a test compares), and the containers' release notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

from settings.hardware import Architecture
from settings.regions import DOMAIN, ZONES

_ACCOUNT: Final = "763104351884"
"""The account of the Deep Learning Containers in each region of settings.regions.ZONES; other regions have others."""


@dataclass(frozen=True, kw_only=True)
class BaseImage:
    """A base image: `end_of_patch` is the day after which AWS no longer patches it; None: no day is published."""

    repository: str
    tag: str
    arch: Architecture
    end_of_patch: date | None = None
    minimum_driver: int | None = None
    """Lowest NVIDIA driver branch that runs the image's CUDA; None without CUDA."""

    def registry(self, region: str) -> str:
        """Registry host in `region`. Raises KeyError for a region without the image."""
        if region not in ZONES:
            raise KeyError(region)
        return f"{_ACCOUNT}.dkr.ecr.{region}.{DOMAIN}"

    def uri(self, region: str) -> str:
        """Full image URI in `region`. Raises KeyError for a region without the image."""
        return f"{self.registry(region)}/{self.repository}:{self.tag}"

    def repository_arn(self, region: str) -> str:
        """ARN of the repository, for pull permissions."""
        return f"arn:aws:ecr:{region}:{_ACCOUNT}:repository/{self.repository}"


IMAGES: Final[dict[str, BaseImage]] = {
    # The last Ubuntu line of training containers; its -ec2 flavour has no SageMaker entry point. CUDA 13.0 needs
    # driver branch 580 (CUDA 13.0 release notes).
    "pytorch-training": BaseImage(
        repository="pytorch-training",
        tag="2.10.0-gpu-py313-cu130-ubuntu22.04-ec2",
        arch="x86_64",
        end_of_patch=date(2027, 1, 21),
        minimum_driver=580,
    ),
    # The last inference container with TorchServe, for Graviton.
    "pytorch-inference-arm64": BaseImage(
        repository="pytorch-inference-arm64",
        tag="2.6.0-cpu-py312-ubuntu22.04-sagemaker",
        arch="arm64",
        end_of_patch=date(2026, 6, 30),
    ),
    # The last of the Neuron SDK's PyTorch inference containers (SDK 2.32 lists none any more), for Inf2 and Trn1; since
    # SDK 2.31 that path is in maintenance, without a date for its end. It brings neuronx-cc, so that it compiles too.
    # For all images of an Inferentia host: nginx and the monitor then share the layers that the servers need anyway.
    "pytorch-inference-neuronx": BaseImage(
        repository="pytorch-inference-neuronx",
        tag="2.9.0-neuronx-py312-sdk2.31.1-ubuntu24.04",
        arch="x86_64",
        end_of_patch=None,
    ),
}


def base_image(key: str) -> BaseImage:
    """An image of the catalogue. Raises KeyError for one that is not in it."""
    return IMAGES[key]
