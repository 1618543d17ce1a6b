"""engine.json: what a TensorRT engine is, what it was built from, where it runs. Standard library only."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FILE = "engine.json"
PLAN_TAG = 0x74727466
"""First four bytes of a plan; its version stands in bytes 24 to 27 (trtexec's --getPlanVersionOnly reads them so)."""
DTYPES = ("int32", "int64", "float32", "float16")


class EngineError(ValueError):
    """An engine.json or a plan that is not what it should be."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """An input or output: `dims` with the batch first; -1 is a free dimension."""

    dtype: str
    dims: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """(batch, sequence) that the engine accepts at least and at most, and is tuned for."""

    minimum: tuple[int, int]
    optimum: tuple[int, int]
    maximum: tuple[int, int]

    def __post_init__(self) -> None:
        ordered = zip(self.minimum, self.optimum, self.maximum, strict=True)
        if any(not 1 <= low <= best <= high for low, best, high in ordered):
            raise EngineError(
                f"shapes: minimum {_by(self.minimum)}, optimum {_by(self.optimum)}, maximum {_by(self.maximum)}: "
                "each must be at least 1 and no larger than the next"
            )


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What engine.json holds. An engine runs on `tensorrt` and `compute_capability` alone."""

    tensorrt: str
    cuda: str
    compute_capability: str
    gpu: str
    driver: str
    precision: str
    shapes: Shapes
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    onnx_sha256: str
    plan_sha256: str
    commands: tuple[tuple[str, ...], ...]
    measured: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write engine.json at `path`; equal engines give equal bytes."""
        text = json.dumps({"schema": 1, **asdict(self)}, indent=2)
        path.write_text(text + "\n", encoding="utf-8")


def read(path: Path) -> Engine:
    """The engine that an engine.json describes. Raises EngineError."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("schema") != 1:
            raise EngineError(f"{path}: schema must be 1")
        for key in ("inputs", "outputs"):
            document[key] = tensors(document[key])
        shapes = {key: tuple(value) for key, value in document.pop("shapes").items()}
        commands = tuple(tuple(command) for command in document.pop("commands"))
        return Engine(**document, shapes=Shapes(**shapes), commands=commands)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{path}: not an engine.json ({error})") from error


def tensors(described: Mapping[str, Any]) -> dict[str, Tensor]:
    """`{"name": {"dtype": "int32", "dims": [-1, -1]}}` → tensors. Raises EngineError for a type of no use here."""
    found = {name: Tensor(dtype=one["dtype"], dims=tuple(one["dims"])) for name, one in described.items()}
    for name, one in found.items():
        if one.dtype not in DTYPES:
            raise EngineError(f"{name}: dtype '{one.dtype}' is none of {', '.join(DTYPES)}")
    return found


def plan_version(head: bytes) -> str:
    """TensorRT version (`10.13.3`) that wrote a plan, from its first 28 bytes. Raises EngineError."""
    if len(head) < 28 or struct.unpack("<I", head[:4])[0] != PLAN_TAG:
        raise EngineError("no TensorRT plan: it does not begin with the tag 'ftrt'")
    serialization = struct.unpack("<I", head[4:8])[0]
    if serialization != 0:
        raise EngineError(f"a TensorRT plan of the unknown serialization version {serialization}")
    return ".".join(str(number) for number in head[24:27])


def same_version(one: str, other: str) -> bool:
    """Whether two TensorRT versions agree in major, minor and patch, as far as both name them."""
    numbers = [[int(part) for part in re.findall(r"\d+", version)[:3]] for version in (one, other)]
    return all(a == b for a, b in zip(*numbers, strict=False))


def _by(shape: tuple[int, int]) -> str:
    return "x".join(str(size) for size in shape)
