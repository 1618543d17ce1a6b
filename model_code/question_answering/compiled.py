"""A compiled model in memory: rows in, logits out, padded to a compiled shape."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from model_code.question_answering import manifest as manifests
from model_code.question_answering.answers import Logits
from model_code.question_answering.backends import BackendError, Runnable, backend, versions
from model_code.question_answering.windows import Window
from model_code.shapes import StaticShapes

Arrays = tuple[NDArray[np.int64], ...]


class CompiledModel:
    """The model in a folder that trace.py wrote."""

    def __init__(self, folder: Path) -> None:
        """Load every file. Raises ManifestError or BackendError."""
        self.manifest = manifests.read(folder)
        self.shapes: StaticShapes = self.manifest.static_shapes
        self.tokenizer = Tokenizer.from_file(str(folder / self.manifest.tokenizer_files[0]))
        engine = backend(self.manifest.backend)
        _check_runtime(self.manifest)
        files = {shape.file for shape in self.manifest.shapes}
        loaded = {name: engine.load(folder / name) for name in sorted(files)}
        self._run: dict[tuple[int, int], Runnable] = {
            (shape.batch, shape.length): loaded[shape.file] for shape in self.manifest.shapes
        }
        self.file_bytes = sum((folder / name).stat().st_size for name in files)
        with np.load(folder / manifests.REFERENCE, allow_pickle=False) as reference:
            self._reference = dict(reference)

    def run(self, windows: Sequence[Window]) -> list[tuple[Logits, Logits]]:
        """(start, end) logits of each window, one float32 per token. Raises ShapeError when they fit no shape."""
        batch = self.shapes.batch_for(len(windows))
        length = self.shapes.length_for(max(window.length for window in windows))
        start, end = self.run_arrays(self.pad(windows, batch=batch, length=length))
        return [(start[row, : window.length], end[row, : window.length]) for row, window in enumerate(windows)]

    def pad(self, windows: Sequence[Window], *, batch: int, length: int) -> Arrays:
        """The model's inputs, each int64 (batch, length); rows beyond the windows repeat the first."""
        ids = np.full((batch, length), self.manifest.pad_token_id, dtype=np.int64)
        mask = np.zeros((batch, length), dtype=np.int64)
        types = np.zeros((batch, length), dtype=np.int64)
        for row in range(batch):
            window = windows[row] if row < len(windows) else windows[0]
            ids[row, : window.length] = window.ids
            mask[row, : window.length] = 1
            types[row, : window.length] = window.types
        return self._arrays({"input_ids": ids, "attention_mask": mask, "token_type_ids": types})

    def run_arrays(self, arrays: Arrays) -> tuple[Logits, Logits]:
        """Run one batch of exactly a compiled shape; float32 (batch, length) twice. Raises ShapeError."""
        for array in arrays:
            self.shapes.check(array.shape)
        with torch.inference_mode():
            start, end = self._run[arrays[0].shape](*(torch.from_numpy(array) for array in arrays))
        return start.float().numpy(), end.float().numpy()

    def difference(self, *, batch: int, length: int) -> float:
        """Largest difference of a logit to the eager model, on the inputs that trace.py recorded."""
        names = ("input_ids", "attention_mask", "token_type_ids")
        found = {name: self._reference[f"{length}/{name}"][:batch].astype(np.int64) for name in names}
        real = found["attention_mask"] == 1
        run = self.run_arrays(self._arrays(found))
        wanted = (self._reference[f"{length}/{name}"][:batch] for name in ("start", "end"))
        # A NaN stays a NaN here, and fails every comparison.
        return float(np.max([np.abs(ours - eager)[real].max() for ours, eager in zip(run, wanted, strict=True)]))

    def _arrays(self, named: dict[str, NDArray[np.int64]]) -> Arrays:
        return tuple(named[name] for name in self.manifest.inputs)


def _check_runtime(manifest: manifests.Manifest) -> None:
    """A compiled file needs a Neuron runtime that is no older. Raises BackendError."""
    compiled = manifest.versions.get("torch-neuronx")
    here = versions(["torch-neuronx"]).get("torch-neuronx")
    if compiled and here and _numbers(here) < _numbers(compiled):
        raise BackendError(f"compiled with torch-neuronx {compiled}, and here is the older {here}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split("+")[0].split(".") if part.isdigit()]
