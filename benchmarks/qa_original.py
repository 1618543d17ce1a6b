"""The server that ours is compared with: the design of AWS's sample "best practices for FastAPI on Inferentia".

One `async def` route that tokenizes and runs the model itself, so the event loop stands still meanwhile; one row at a
time; every row padded to 128 tokens; hypercorn. The model is a folder of trace.py with the one shape (1, 128), in the
variable TORCHLIFT_MODEL_SOURCE.
"""

# No `from __future__ import annotations`: FastAPI reads the signatures.

import os
from pathlib import Path

import numpy as np
import torch
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from model_code.question_answering.compiled import CompiledModel

PADDED = 128

torch.set_num_threads(1)
model = CompiledModel(Path(os.environ["TORCHLIFT_MODEL_SOURCE"]))
model.tokenizer.enable_truncation(PADDED, strategy="only_second")
model.tokenizer.enable_padding(length=PADDED)
app = FastAPI()


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    """The sample's own check lies at /."""
    return {"Status": "Healthy"}


@app.get("/predictions_neuron_core_0/model_0")
async def infer(seq_0: str, seq_1: str) -> JSONResponse:
    """The answer: from the best start to the best end, whichever they are."""
    row = model.tokenizer.encode(seq_0, seq_1)
    named = {"input_ids": row.ids, "attention_mask": row.attention_mask, "token_type_ids": row.type_ids}
    arrays = tuple(np.array([named[name]], dtype=np.int64) for name in model.manifest.inputs)
    start, end = model.run_arrays(arrays)
    first, last = int(start[0].argmax()), int(end[0].argmax()) + 1
    return JSONResponse({"detail": model.tokenizer.decode(row.ids[first:last])})
