"""P9 and P10: a real Triton on the CPU, MiniLM by ONNX Runtime in the place of a TensorRT engine.

The ratios say what loading and batching cost and bring in Triton; how large they are on a GPU, only a GPU tells.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Comparison, compare
from model_code.archive import unpack
from model_code.text_encoding import client, engine, model_config, repository
from model_code.text_encoding.client import Arrays, Limits
from stand_in.demo.data import copy_model
from stand_in.executor import triton

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "build" / "benchmarks" / "encoder"
OUTPUT = "sentence_embedding"
LIMITS = Limits(max_batch=16, max_sequence=128, inputs=("input_ids", "attention_mask", "token_type_ids"))
BATCH = 8
"""Texts that the batcher aims at."""
AT_ONCE = 16
"""Requests in flight: the next batch gathers while one runs."""


def cold(*, repeats: int = 7) -> Comparison:
    """P9: a request for a model that must be unpacked and loaded first, beside one for a loaded model."""
    with _server({"encoder": True}) as (server, archives):
        send, inputs = _send(server), _inputs(1)
        folder = archives / "unpacked"

        def first() -> None:
            server.unload("encoder", target="encoder.tar.gz")
            shutil.rmtree(folder, ignore_errors=True)
            unpack(archives / "encoder.tar.gz", folder / "model")
            server.load("encoder", folder / "model", target="encoder.tar.gz")
            client.encode(send, "encoder.tar.gz", inputs, limits=LIMITS, outputs=[OUTPUT])

        def again() -> None:
            client.encode(send, "encoder.tar.gz", inputs, limits=LIMITS, outputs=[OUTPUT])

        return compare(first, again, repeats=repeats, command="unpack, load and invoke / invoke")


def batching(*, repeats: int = 7, requests: int = 96) -> Comparison:
    """P10: single texts from sixteen clients at once, with Triton's dynamic batcher beside without it."""
    with _server({"together": True, "alone": False}) as (server, archives):
        for name in ("together", "alone"):
            unpack(archives / f"{name}.tar.gz", archives / name / "model")
            server.load(name, archives / name / "model", target=f"{name}.tar.gz")
        send, texts = _send(server), [_inputs(seed) for seed in range(requests)]

        def through(name: str) -> None:
            work = [(f"{name}.tar.gz", one) for one in texts]
            client.encode_all(send, work, limits=LIMITS, outputs=[OUTPUT], at_once=AT_ONCE)

        return compare(
            lambda: through("together"), lambda: through("alone"), repeats=repeats,
            command=f"{requests} requests, {AT_ONCE} at once: dynamic_batching / none",
        )  # fmt: skip


@contextmanager
def _server(models: dict[str, bool]) -> Iterator[tuple[triton.Triton, Path]]:
    """A Triton, and a folder with an archive of each model: whether it batches requests."""
    described = _exported()
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        for name, batches in models.items():
            config = model_config.make(name, described, delay_us=2000, preferred=[BATCH])
            if not batches:
                config.ClearField("dynamic_batching")
            repository.write_for_cpu(Path(scratch) / "archives", MODEL / "model.onnx", config)
        (Path(scratch) / "triton").mkdir()
        server = triton.start(
            venv=triton.environment_folder(ROOT), scratch=Path(scratch) / "triton", log=MODEL / "triton.log",
            environment={"SAGEMAKER_TRITON_LOG_VERBOSE": "false"},
        )  # fmt: skip
        try:
            server.wait_until_ready()
            yield server, Path(scratch) / "archives"
        finally:
            server.stop()


def _exported() -> engine.Engine:
    """MiniLM as ONNX in build/benchmarks, made once, and the engine that would serve it."""
    if not (MODEL / "export.json").is_file():
        from model_code.text_encoding.export_onnx import export

        with tempfile.TemporaryDirectory() as folder:
            copy_model(Path(folder) / "model")
            export(Path(folder) / "model", MODEL, outputs=[OUTPUT])
    report: dict[str, Any] = json.loads((MODEL / "export.json").read_text(encoding="utf-8"))
    sizes = engine.Shapes(minimum=(1, 1), optimum=(BATCH, 32), maximum=(LIMITS.max_batch, LIMITS.max_sequence))
    return engine.Engine(
        tensorrt="", cuda="", compute_capability="", gpu="", driver="", precision="fp32", shapes=sizes,
        inputs=engine.tensors(report["inputs"]), outputs=engine.tensors(report["outputs"]),
        onnx_sha256=report["onnx_sha256"], plan_sha256="", commands=(),
    )  # fmt: skip


def _inputs(seed: int, *, tokens: int = 32) -> Arrays:
    """int32 [1, tokens] of each input: one text without padding."""
    ids = np.random.default_rng(seed).integers(1000, 30_000, (1, tokens), dtype=np.int32)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def _send(server: triton.Triton) -> client.Send:
    return client.loopback(f"http://127.0.0.1:{server.port}", lambda target: f"/models/{target[:-7]}/invoke")
