"""A model's config.pbtxt, made and read as Triton's own message: a misspelt field cannot get through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from model_code.text_encoding.engine import Engine, Tensor

PLATFORM = "tensorrt_plan"
TYPES = {"int32": "TYPE_INT32", "int64": "TYPE_INT64", "float32": "TYPE_FP32", "float16": "TYPE_FP16"}
Config = Any
"""inference.ModelConfig, the message of config.pbtxt."""


class ConfigError(ValueError):
    """A config.pbtxt that Triton would refuse, or that does not fit its engine."""


def make(
    name: str, engine: Engine, *, max_batch: int | None = None, preferred: Sequence[int] = (), delay_us: int = 0,
    instances: int = 1,
) -> Config:  # fmt: skip
    """The config of a model that serves `engine`. Raises ConfigError.

    :param max_batch: largest batch of one execution; the engine's largest by default
    :param preferred: batch sizes that the dynamic batcher aims at; the engine's optimum by default
    :param delay_us: how long a request may wait for others, in microseconds
    :param instances: executions at the same time on one GPU
    """
    largest = max_batch or engine.shapes.maximum[0]
    config = model_config_pb2.ModelConfig(name=name, platform=PLATFORM, max_batch_size=largest)
    for target, tensors in ((config.input, engine.inputs), (config.output, engine.outputs)):
        for tensor_name, tensor in tensors.items():
            target.add(name=tensor_name, data_type=TYPES[tensor.dtype], dims=dims(tensor, engine))
    config.instance_group.add(count=instances, kind="KIND_GPU")
    config.dynamic_batching.preferred_batch_size.extend(preferred or [min(engine.shapes.optimum[0], largest)])
    config.dynamic_batching.max_queue_delay_microseconds = delay_us
    if found := problems(config, engine):
        raise ConfigError("; ".join(found))
    return config


def dims(tensor: Tensor, engine: Engine) -> list[int]:
    """Dimensions without the batch: the free one is the sequence, fixed when the engine knows one length only."""
    shortest, longest = engine.shapes.minimum[1], engine.shapes.maximum[1]
    return [longest if size == -1 and shortest == longest else size for size in tensor.dims[1:]]


def to_text(config: Config) -> str:
    """config.pbtxt."""
    return str(text_format.MessageToString(config))


def parse(text: str) -> Config:
    """The message of a config.pbtxt. Raises ConfigError with line and column."""
    try:
        return text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise ConfigError(f"config.pbtxt {error}") from error


def problems(config: Config, engine: Engine) -> list[str]:
    """Why this config would not serve this engine; one sentence each, none when it would."""
    found = []
    if config.platform != PLATFORM and config.backend != "tensorrt":
        found.append(f"platform is '{config.platform or config.backend}': an engine needs '{PLATFORM}'")
    low, high = engine.shapes.minimum[0], engine.shapes.maximum[0]
    if not 1 <= config.max_batch_size <= high:
        found.append(f"max_batch_size is {config.max_batch_size}: the engine takes 1 to {high}")
    if low > 1:
        found.append(f"the engine takes no batch below {low}: a single request would fail")
    kinds = model_config_pb2.ModelInstanceGroup.Kind
    for group in config.instance_group:
        if kinds.Name(group.kind) not in ("KIND_GPU", "KIND_AUTO"):
            found.append(f"instance_group is {kinds.Name(group.kind)}: TensorRT runs on KIND_GPU only")
        if group.count < 1:
            found.append(f"instance_group has {group.count} instances: at least 1 is needed")
    for size in config.dynamic_batching.preferred_batch_size:
        if not 1 <= size <= config.max_batch_size:
            found.append(f"preferred_batch_size {size} is outside 1 to max_batch_size {config.max_batch_size}")
    return (
        found
        + _tensor_problems("input", config.input, engine.inputs, engine)
        + _tensor_problems("output", config.output, engine.outputs, engine)
    )


def _tensor_problems(kind: str, given: Any, wanted: Mapping[str, Tensor], engine: Engine) -> list[str]:
    found = []
    names = [one.name for one in given]
    if sorted(names) != sorted(wanted):
        found.append(f"{kind}s are {', '.join(names) or 'none'}: the engine's are {', '.join(wanted)}")
    for one in given:
        if one.name not in wanted:
            continue
        dtype = model_config_pb2.DataType.Name(one.data_type)
        if dtype != TYPES[wanted[one.name].dtype]:
            found.append(f"{kind} {one.name} is {dtype}: the engine's is {TYPES[wanted[one.name].dtype]}")
        if list(one.dims) != dims(wanted[one.name], engine):
            right = dims(wanted[one.name], engine)
            found.append(f"{kind} {one.name} has dims {list(one.dims)}: the engine's are {right}, without the batch")
    return found
