"""Releases of the Triton container that SageMaker offers, and the driver each needs.

CUDA and driver: `docs/introduction/compatibility.md` of triton-inference-server/server. Registry accounts:
`sagemaker.core.image_uris` data (a test compares). Drivers of the AMIs: SageMaker API reference, ProductionVariant. No
TensorRT versions here: engines are built in the very image that serves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from settings.images import BaseImage

AMI_DRIVERS: Final[dict[str, int]] = {
    "al2-ami-sagemaker-inference-gpu-2-1": 535,
    "al2-ami-sagemaker-inference-gpu-3-1": 550,
    "al2023-ami-sagemaker-inference-gpu-4-1": 580,
}
"""{InferenceAmiVersion: its NVIDIA driver branch}. None of them mounts the image's own CUDA compatibility libraries, so
the driver itself must be new enough; SageMaker's default for ml.g5 is 470."""


@dataclass(frozen=True, kw_only=True)
class TritonRelease:
    """One `YY.MM`: `minimum_driver` is the oldest NVIDIA driver branch that runs its CUDA."""

    name: str
    cuda: str
    minimum_driver: int

    @property
    def image(self) -> BaseImage:
        """The container, in the Deep Learning Containers' registry of each region."""
        return BaseImage(
            repository="sagemaker-tritonserver",
            tag=f"{self.name}-py3",
            arch="x86_64",
            minimum_driver=self.minimum_driver,
        )

    @property
    def ami_version(self) -> str | None:
        """The oldest InferenceAmiVersion with a driver for it; None: SageMaker hosts no instance that runs it."""
        fit = [name for name, driver in AMI_DRIVERS.items() if driver >= self.minimum_driver]
        return fit[0] if fit else None


# Older ones have Python 3.10, and the libraries of containers/tensorrt-builder are pinned for 3.12.
RELEASES: Final[dict[str, TritonRelease]] = {
    name: TritonRelease(name=name, cuda=cuda, minimum_driver=driver)
    for name, cuda, driver in (
        ("25.04", "12.9.0", 575),
        ("25.09", "13.0.1", 580),
        ("26.05", "13.2.1", 595),
    )
}
HOSTED: Final = tuple(name for name, item in RELEASES.items() if item.ami_version is not None)


def triton_release(name: str) -> TritonRelease:
    """A release of the catalogue. Raises KeyError for one that is not in it."""
    return RELEASES[name]
