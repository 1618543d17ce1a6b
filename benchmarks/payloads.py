"""P8: what a request and its answer cost the client in binary beside JSON, by batch. No server: bytes in, bytes out."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Comparison, compare
from model_code.text_encoding import client

OUTPUT, HIDDEN, TOKENS = "sentence_embedding", 384, 128
VOCABULARY = 30_522
"""Of BERT and MiniLM: JSON writes long token ids in more digits."""
TEXTS = 2048
"""Encoded in one measurement, however many to a request."""


def run(batch: int, *, repeats: int = 9, texts: int = TEXTS) -> Comparison:
    """Build requests for `texts` texts, `batch` to a request, and read their answers; some seconds."""
    random = np.random.default_rng(0)
    tokens = random.integers(0, VOCABULARY, (batch, TOKENS), dtype=np.int32)
    inputs = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
    vectors = random.standard_normal((batch, HIDDEN), dtype=np.float32)

    def whole(*, binary: bool) -> Callable[[], None]:
        body, content_type = answer(vectors, binary=binary)

        def work() -> None:
            for _ in range(texts // batch):
                client.build(inputs, outputs=[OUTPUT], binary=binary)
                client.parse(body, content_type)

        return work

    command = f"client.build and client.parse, {texts} texts, {batch} to a request"
    return compare(whole(binary=True), whole(binary=False), repeats=repeats, command=command)


def answer(vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]], *, binary: bool) -> tuple[bytes, str]:
    """What Triton answers, as body and content type: float32 [batch, hidden] as one output."""
    output = {"name": OUTPUT, "datatype": "FP32", "shape": list(vectors.shape)}
    head = {"model_name": "encoder-0.tar.gz", "model_version": "1"}
    if not binary:
        body = {**head, "outputs": [{**output, "data": [float(value) for value in vectors.ravel()]}]}
        return json.dumps(body).encode(), client.JSON
    raw = vectors.tobytes()
    header = json.dumps({**head, "outputs": [{**output, "parameters": {"binary_data_size": len(raw)}}]}).encode()
    return header + raw, f"{client.BINARY}{len(header)}"
