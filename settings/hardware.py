"""The catalogue of instance types: what the settings rules and the stacks need to know of each.

Sources: AWS instance type pages (vCPU, memory, GPUs, local disks) and the Inferentia2 page (chips and cores).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Architecture = Literal["x86_64", "arm64"]


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One instance type. `memory_gib` in GiB; `gpu_memory_gib` per GPU; `local_nvme`: instance store disks."""

    name: str
    arch: Architecture
    vcpus: int
    memory_gib: int
    gpus: int = 0
    gpu_name: str = ""
    gpu_memory_gib: int = 0
    local_nvme: bool = False
    neuron_devices: int = 0
    neuron_cores: int = 0


def _gpu(name: str, vcpus: int, memory: int, gpus: int, gpu: str, gpu_memory: int) -> Hardware:
    return Hardware(
        name=name,
        arch="x86_64",
        vcpus=vcpus,
        memory_gib=memory,
        gpus=gpus,
        gpu_name=gpu,
        gpu_memory_gib=gpu_memory,
        local_nvme=True,
    )


# size → (vCPU, memory GiB, GPUs); the same shape for g5 (A10G), g6 (L4) and ml.g5
_G_SIZES: Final = {
    "xlarge": (4, 16, 1),
    "2xlarge": (8, 32, 1),
    "4xlarge": (16, 64, 1),
    "8xlarge": (32, 128, 1),
    "12xlarge": (48, 192, 4),
    "16xlarge": (64, 256, 1),
    "24xlarge": (96, 384, 4),
    "48xlarge": (192, 768, 8),
}


def _g_family(prefix: str, gpu: str) -> list[Hardware]:
    return [_gpu(f"{prefix}.{size}", vcpus, memory, gpus, gpu, 24) for size, (vcpus, memory, gpus) in _G_SIZES.items()]


def _inf2(size: str, vcpus: int, memory: int, devices: int) -> Hardware:
    return Hardware(
        name=f"inf2.{size}",
        arch="x86_64",
        vcpus=vcpus,
        memory_gib=memory,
        neuron_devices=devices,
        neuron_cores=2 * devices,
    )


_EC2: Final = [
    _gpu("p4d.24xlarge", 96, 1152, 8, "NVIDIA A100", 40),
    _gpu("p4de.24xlarge", 96, 1152, 8, "NVIDIA A100", 80),
    _gpu("p5.48xlarge", 192, 2048, 8, "NVIDIA H100", 80),
    *_g_family("g5", "NVIDIA A10G"),
    *_g_family("g6", "NVIDIA L4"),
    _inf2("xlarge", 4, 16, 1),
    _inf2("8xlarge", 32, 128, 1),
    _inf2("24xlarge", 96, 384, 6),
    _inf2("48xlarge", 192, 768, 12),
]

# Graviton sizes up to 16xlarge: size → vCPU. Memory per vCPU: c 2 GiB, m 4 GiB, r 8 GiB.
_GRAVITON_VCPUS: Final = {
    "large": 2,
    "xlarge": 4,
    "2xlarge": 8,
    "4xlarge": 16,
    "8xlarge": 32,
    "12xlarge": 48,
    "16xlarge": 64,
}
_GRAVITON_EXTRA: Final = {"medium": 1, "24xlarge": 96, "48xlarge": 192}
_MEMORY_PER_VCPU: Final = {"c": 2, "m": 4, "r": 8}
_GRAVITON_FAMILIES: Final = ("m6g", "m6gd", "c6g", "c6gd", "c6gn", "r6g", "r6gd", "c7g", "r7gd", "c8g", "m8g", "r8g")
"""Families of ml. types on Graviton that SageMaker hosting offers (botocore, ProductionVariantInstanceType)."""


def _graviton() -> list[Hardware]:
    made = []
    for family in _GRAVITON_FAMILIES:
        sizes = dict(_GRAVITON_VCPUS)
        if family in ("c8g", "m8g", "r8g"):
            sizes |= _GRAVITON_EXTRA
        if family == "r7gd":
            sizes["medium"] = 1
        for size, vcpus in sizes.items():
            made.append(
                Hardware(
                    name=f"ml.{family}.{size}",
                    arch="arm64",
                    vcpus=vcpus,
                    memory_gib=vcpus * _MEMORY_PER_VCPU[family[0]],
                    local_nvme=family.endswith("d"),
                )
            )
    return made


EC2_TYPES: Final[dict[str, Hardware]] = {item.name: item for item in _EC2}
ML_TYPES: Final[dict[str, Hardware]] = {item.name: item for item in [*_graviton(), *_g_family("ml.g5", "NVIDIA A10G")]}
TRAINING_TYPES: Final = tuple(name for name, item in EC2_TYPES.items() if item.gpus)
CAPACITY_BLOCK_TYPES: Final = tuple(name for name in TRAINING_TYPES if name.startswith("p"))
"""Capacity blocks are sold of the P and Trn families only (EC2 User Guide, "Capacity Blocks for ML")."""


HOSTING_GPU_TYPES: Final = tuple(name for name, item in ML_TYPES.items() if item.gpus)
"""Multi-model endpoints run on these, too (SageMaker developer guide, "Supported … instances for multi-model")."""
COMPUTE_CAPABILITY: Final = {"NVIDIA A10G": "8.6", "NVIDIA L4": "8.9", "NVIDIA A100": "8.0", "NVIDIA H100": "9.0"}
"""By GPU (NVIDIA, "CUDA GPU Compute Capability"): a TensorRT engine runs on the one that it was built on."""


def instance(name: str) -> Hardware:
    """An EC2 type of the catalogue. Raises KeyError for one that is not in it."""
    return EC2_TYPES[name]


def ml_instance(name: str) -> Hardware:
    """A SageMaker hosting type of the catalogue. Raises KeyError for one that is not in it."""
    return ML_TYPES[name]
