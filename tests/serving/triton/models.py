"""Engines and ONNX encoders made on the spot, small enough to see through: no export, no GPU."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from model_code.text_encoding.engine import FILE, PLAN_TAG, Engine, Shapes, Tensor

HIDDEN = 4
VOCABULARY = 50


def plan(version: tuple[int, int, int] = (10, 13, 3)) -> bytes:
    """Bytes with the head of a TensorRT plan; no TensorRT would load the rest."""
    return struct.pack("<II16x4B", PLAN_TAG, 0, *version, 1) + b"weights" * 100


def engine(**changes: object) -> Engine:
    """An engine for `encoder`: batch 1 to 8, sequence 1 to 64."""
    made = Engine(
        tensorrt="10.13.3", cuda="13.0", compute_capability="8.6", gpu="NVIDIA A10G", driver="580.95.05",
        precision="fp16", shapes=Shapes(minimum=(1, 1), optimum=(4, 32), maximum=(8, 64)),
        inputs={name: Tensor(dtype="int32", dims=(-1, -1)) for name in ("input_ids", "attention_mask")},
        outputs={
            "last_hidden_state": Tensor(dtype="float32", dims=(-1, -1, HIDDEN)),
            "pooler_output": Tensor(dtype="float32", dims=(-1, HIDDEN)),
        },
        onnx_sha256="0" * 64, plan_sha256=hashlib.sha256(plan()).hexdigest(), commands=(("trtexec",),),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def write_engine(folder: Path, *, content: bytes | None = None, **changes: object) -> Path:
    """A folder with engine.json and model.plan."""
    folder.mkdir(parents=True, exist_ok=True)
    data = plan() if content is None else content
    engine(**{"plan_sha256": hashlib.sha256(data).hexdigest(), **changes}).write(folder / FILE)
    (folder / "model.plan").write_bytes(data)
    return folder


def weights(seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """float32 [VOCABULARY, HIDDEN]; the first column is all `seed`, so an answer tells its model."""
    table = np.random.default_rng(seed).standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
    table[:, 0] = seed
    return table


def encoder(path: Path, seed: int) -> Path:
    """An ONNX encoder: each token's row of `weights(seed)` where it is no padding, and their sum."""
    axis = numpy_helper.from_array(np.array([2], np.int64), "last")
    rows = numpy_helper.from_array(np.array([1], np.int64), "rows")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["found"]),
        helper.make_node("Unsqueeze", ["attention_mask", "last"], ["mask"]),
        helper.make_node("Cast", ["mask"], ["weight"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["found", "weight"], ["last_hidden_state"]),
        helper.make_node("ReduceSum", ["last_hidden_state", "rows"], ["pooler_output"], keepdims=0),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [
        helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", HIDDEN]),
        helper.make_tensor_value_info("pooler_output", TensorProto.FLOAT, ["batch", HIDDEN]),
    ]
    graph = helper.make_graph(
        nodes, "encoder", inputs, outputs, [numpy_helper.from_array(weights(seed), "table"), axis, rows]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path
