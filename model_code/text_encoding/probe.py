"""probe.json: requests that show whether an endpoint serves this very encoder, and the vectors that must come back.

    {"schema": 1, "format": "vectors", "content_type": "application/json", "least_similarity": 0.99,
     "cases": [{"request": {"inputs": [...], "outputs": [{"name": "pooler_output"}]}, "output": "pooler_output",
                "vectors": [[0.1, ...], ...]}]}

`request` is Triton's (KServe v2, JSON). One vector a text, compared by cosine similarity: the exported ONNX file's own
answer in float32. Of an output with a row a token, the vector is the first token's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from model_code.text_encoding import client
from model_code.text_encoding.engine import Engine

NAME = "probe.json"
TEXTS = ("What a lovely day!", "The bus was late again, and nobody told us why.", "The shop opens at nine.")
LEAST_SIMILARITY = {"fp32": 0.999, "fp16": 0.99, "int8": 0.9}
"""Cosine similarity to float32 below which an engine of that precision is broken, not merely rounded."""


def make(model: Path, onnx_file: Path, engine: Engine) -> dict[str, Any]:
    """The probe of an exported encoder.

    :param model: folder with tokenizer.json
    Raises EncodingError, or FileNotFoundError without a tokenizer.json.
    """
    if not (model / "tokenizer.json").is_file():
        raise FileNotFoundError(f"{model / 'tokenizer.json'} is missing: clients turn text into tokens with it")
    # One text a request: an engine may take no larger batch.
    return {
        "schema": 1,
        "format": "vectors",
        "content_type": client.JSON,
        "least_similarity": LEAST_SIMILARITY[engine.precision],
        "cases": [_case(model, onnx_file, engine, text) for text in TEXTS],
    }


def encode(probe: dict[str, Any]) -> bytes:
    """The file's bytes."""
    return (json.dumps(probe, indent=2) + "\n").encode()


def _case(model: Path, onnx_file: Path, engine: Engine, text: str) -> dict[str, Any]:
    import onnxruntime

    inputs = client.tokenise(model, [text], limits=client.limits_of(engine))
    session = onnxruntime.InferenceSession(str(onnx_file), providers=["CPUExecutionProvider"])
    flat = [name for name, tensor in engine.outputs.items() if len(tensor.dims) == 2]
    output = (flat or list(engine.outputs))[0]
    (answer,) = session.run([output], inputs)
    vector = np.asarray(answer if flat else answer[:, 0])[0]
    body, _ = client.build(inputs, outputs=[output], binary=False)
    return {"request": json.loads(body), "output": output, "vectors": [[round(float(one), 5) for one in vector]]}
