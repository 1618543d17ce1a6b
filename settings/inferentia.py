"""Inf2 instances: NeuronCores and devices, and how many models fit on a core.

Numbers of devices, cores, vCPUs and memory are the catalogue's (settings/hardware.py). What a model needs is reckoned
from its weights: no instance is at hand when settings are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from model_code.serving.neuron_cores import INF2_CORES_PER_DEVICE, device_of, port_of
from settings.hardware import EC2_TYPES, Hardware, instance

INF2_TYPES: Final = tuple(name for name, item in EC2_TYPES.items() if item.neuron_cores)
DEVICE_MIB: Final = 32 * 1024
"""Of an Inferentia2 chip, for all its cores (Neuron documentation, "Inferentia2 Architecture")."""
CORE_CODE_MIB: Final = 96
"""Microcode on each core (Neuron documentation, "Neuron Device Memory")."""
DEVICE_MIB_PER_WEIGHT_MIB: Final = 1.6
"""Weights, code and scratch of one compiled shape. Doubtful: for BERT base, whose weights have 438 MB, the AWS sample
that this workload began with says 675.3 MB at one place and 287.8 MB at another (its README and the post on it), and
neither says on which chip, or for how many shapes. This is the larger one, rounded up."""
SERVER_MIB: Final = 1024
"""A server without models: Python, PyTorch, the Neuron runtime's library. An estimate, on the safe side."""
VCPUS_PER_SERVER: Final = 2
"""One for the event loop and the thread that waits for the core, one for tokenizing."""
MOST_TOKENIZER_THREADS: Final = 8

__all__ = ["Advice", "advise", "cores_of", "device_of", "port_of", "served_cores", "tokenizer_threads"]


@dataclass(frozen=True, kw_only=True)
class Advice:
    """How `models_per_core` models fare on each served core of an instance type. Memory in MiB.

    :param cores: served cores; an instance has `devices` devices with two each
    :param refused: why it cannot be, one sentence each; empty when it fits
    :param most_models: the most models per core that fit, 0 for none
    :param room_to_change: a server loads a new model before it lets the old one go: whether one more fits
    """

    instance_type: str
    devices: int
    cores: int
    models_per_core: int
    vcpus_per_core: float
    vcpus_per_model: float
    host_mib_per_model: float
    device_mib_needed: int
    device_mib: int
    host_mib_needed: int
    host_mib: int
    refused: tuple[str, ...]
    most_models: int
    room_to_change: bool


def cores_of(instance_type: str) -> int:
    """NeuronCores of an Inf2 type. Raises KeyError for another type."""
    return _inf2(instance_type).neuron_cores


def served_cores(instance_type: str, num_cores: int | Literal["all"]) -> tuple[int, ...]:
    """The cores with a server, from 0. Raises KeyError for a type that is no Inf2, ValueError for more than it has."""
    cores = cores_of(instance_type)
    count = cores if num_cores == "all" else num_cores
    if not 1 <= count <= cores:
        raise ValueError(f"{instance_type} has {cores} NeuronCores, not {count}")
    return tuple(range(count))


def tokenizer_threads(instance_type: str, num_cores: int | Literal["all"]) -> int:
    """Threads of each server that prepare long inputs: its share of the vCPUs without the event loop's."""
    share = _inf2(instance_type).vcpus // len(served_cores(instance_type, num_cores))
    return min(MOST_TOKENIZER_THREADS, max(1, share - 1))


def server_memory_mib(machine: Hardware, cores: int) -> int:
    """What hosts/inferentia/server.sh gives each server: a tenth and 1 GiB stay for the rest. EC2 keeps some 5 % of the
    nominal memory for itself."""
    return int((machine.memory_gib * 1024 * 0.95 - 1024) * 0.9 / cores)


def advise(
    instance_type: str,
    models_per_core: int,
    *,
    weights_mib: float,
    shapes: int,
    num_cores: int | Literal["all"] = "all",
) -> Advice:
    """Whether the models fit, and what each gets.

    Every compiled shape has the weights in it, on the device and in the server's memory.

    :param weights_mib: of the model, in the type that it is compiled in
    :param shapes: compiled shapes of each model
    :raises KeyError: for a type that is no Inf2
    :raises ValueError: for more cores than the type has
    """
    return _advise(
        _inf2(instance_type), len(served_cores(instance_type, num_cores)), models_per_core, weights_mib * shapes
    )


def _advise(machine: Hardware, cores: int, models: int, model_mib: float) -> Advice:
    """:param model_mib: the weights of all shapes of one model"""
    vcpus, host = machine.vcpus / cores, server_memory_mib(machine, cores)
    device = DEVICE_MIB // INF2_CORES_PER_DEVICE
    most = min(
        int((device - CORE_CODE_MIB) / (model_mib * DEVICE_MIB_PER_WEIGHT_MIB)),
        int((host - SERVER_MIB) / model_mib),
    )
    needs_device = CORE_CODE_MIB + models * model_mib * DEVICE_MIB_PER_WEIGHT_MIB
    needs_host = SERVER_MIB + models * model_mib
    refused = []
    if needs_device > device:
        refused.append(f"A core needs {_gib(needs_device)} GiB of device memory and has {_gib(device)}.")
    if needs_host > host:
        refused.append(f"A server needs {_gib(needs_host)} GiB of memory and has {_gib(host)}.")
    if vcpus < VCPUS_PER_SERVER:
        refused.append(f"A server needs {VCPUS_PER_SERVER} vCPUs and has {vcpus:g}.")
    return Advice(
        instance_type=machine.name,
        devices=machine.neuron_devices,
        cores=cores,
        models_per_core=models,
        vcpus_per_core=vcpus,
        vcpus_per_model=vcpus / models,
        host_mib_per_model=machine.memory_gib * 1024 / cores / models,
        device_mib_needed=round(needs_device),
        device_mib=device,
        host_mib_needed=round(needs_host),
        host_mib=host,
        refused=tuple(refused),
        most_models=0 if vcpus < VCPUS_PER_SERVER else max(0, most),
        room_to_change=models < most,
    )


def _inf2(name: str) -> Hardware:
    if name not in INF2_TYPES:
        raise KeyError(name)
    return instance(name)


def _gib(mib: float) -> str:
    return f"{mib / 1024:.1f}"
