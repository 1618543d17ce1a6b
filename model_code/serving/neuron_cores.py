"""NeuronCores: which ones a process sees, their ports and devices. Standard library only, shared with the hosts."""

from __future__ import annotations

import re

BASE_PORT = 8081
INF2_CORES_PER_DEVICE = 2  # AWS Neuron documentation, Inf2 architecture: two NeuronCores-v2 in each chip


class CoreError(ValueError):
    """A list of cores that cannot be read."""


def parse_visible_cores(text: str) -> tuple[int, ...]:
    """Core numbers from NEURON_RT_VISIBLE_CORES: `5`, `10`, `0-3`, `0-3,7`; in order, each once. Raises CoreError."""
    cores: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})(?:-([0-9]{1,4}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise CoreError(f"NEURON_RT_VISIBLE_CORES={text!r}: expected cores such as 5, 10, 0-3 or 0-3,7")
        cores += range(int(match[1]), int(match[2] or match[1]) + 1)
    if len(set(cores)) != len(cores):
        raise CoreError(f"NEURON_RT_VISIBLE_CORES={text!r}: names a core twice")
    return tuple(cores)


def port_of(core: int) -> int:
    """TCP port of the server of a core."""
    return BASE_PORT + core


def device_of(core: int, *, cores_per_device: int = INF2_CORES_PER_DEVICE) -> int:
    """N of the /dev/neuronN that a core is on."""
    return core // cores_per_device
