"""Serves model.onnx by ONNX Runtime in Triton's Python backend: stands in for the TensorRT engine on a CPU.

Travels in the archive as `1/model.py`; needs numpy and onnxruntime only. Requests that the dynamic batcher put together
run as one batch, as the engine would run them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as triton  # type: ignore[import-not-found]  # only inside Triton


class TritonPythonModel:
    """The interface of Triton's Python backend."""

    def initialize(self, args: dict[str, Any]) -> None:
        """Load model.onnx from this version's folder."""
        file = Path(args["model_repository"]) / args["model_version"] / "model.onnx"
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs()]

    def execute(self, requests: list[Any]) -> list[Any]:
        """One answer a request, all from one run."""
        feeds = [
            {name: triton.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs}
            for request in requests
        ]
        together = {name: np.concatenate([one[name] for one in feeds]) for name in self.inputs}
        found = dict(zip(self.outputs, self.session.run(self.outputs, together), strict=True))
        answers, row = [], 0
        for request, one in zip(requests, feeds, strict=True):
            end = row + len(one[self.inputs[0]])
            wanted = [name for name in self.outputs if name in request.requested_output_names()]
            answers.append(triton.InferenceResponse([triton.Tensor(name, found[name][row:end]) for name in wanted]))
            row = end
        return answers
