"""From a transformers model to an answer over HTTP: export, archive for the CPU, real Triton, tokens from texts."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from model_code.text_encoding import client, engine, export_onnx, model_config, repository
from model_code.text_encoding.engine import Shapes

ROOT = Path(__file__).parents[3]
TEXTS = ["the film was very good", "a plain room", "soup ? and it is fresh and lovely this place !"]


def write_base(folder: Path) -> None:
    """A tiny BERT and its tokenizer."""
    spec = importlib.util.spec_from_file_location("torchlift_tiny", ROOT / "tests" / "model_code" / "tiny_model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_base(folder, layers=1)


def test_texts_get_the_original_models_answer(endpoint: Any, models: Any, tmp_path: Path) -> None:
    write_base(tmp_path / "model")
    export_onnx.export(tmp_path / "model", tmp_path / "onnx")
    report = json.loads((tmp_path / "onnx" / "export.json").read_text())
    built = models.engine(
        inputs=engine.tensors(report["inputs"]), outputs=engine.tensors(report["outputs"]),
        shapes=Shapes(minimum=(1, 16), optimum=(4, 32), maximum=(8, report["max_sequence"])),
    )  # fmt: skip
    config = model_config.make("tiny", built)
    repository.write_for_cpu(endpoint.archives, tmp_path / "onnx" / "model.onnx", config)
    answer = endpoint.load("tiny.tar.gz")
    assert answer.status == 200, answer.body
    try:
        limits = client.limits_of(built)
        inputs = client.tokenise(tmp_path / "model", TEXTS, limits=limits)
        send = client.loopback(endpoint.url, endpoint.path)
        found = client.encode(send, "tiny.tar.gz", inputs, limits=limits)
    finally:
        endpoint.unload("tiny.tar.gz")
    # By transformers alone: its own tokens, its own padding, the original weights.
    tokens = AutoTokenizer.from_pretrained(tmp_path / "model")(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        wanted = AutoModel.from_pretrained(tmp_path / "model").eval()(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
        )
    assert found["pooler_output"].shape == (3, 32) and found["last_hidden_state"].shape == (3, 16, 32)
    np.testing.assert_allclose(found["pooler_output"], wanted.pooler_output.numpy(), atol=1e-4)
    for row, length in enumerate(tokens["attention_mask"].sum(1).tolist()):
        np.testing.assert_allclose(
            found["last_hidden_state"][row, :length], wanted.last_hidden_state.numpy()[row, :length], atol=1e-4
        )
