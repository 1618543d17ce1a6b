"""Does an ONNX file answer as the original does? Run over several batch sizes, lengths and paddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Tensors = Mapping[str, npt.NDArray[Any]]
SHAPES = ((1, 1), (1, 8), (2, 17), (5, 32), (3, 128))
"""(batch, sequence): none is the shape that the exporter saw, so a dimension that it froze shows."""


class ParityError(ValueError):
    """The exported file does not answer as the original does."""


def compare(
    original: Callable[[Tensors], Tensors], onnx_file: Path, *, inputs: Sequence[str], outputs: Sequence[str],
    vocabulary: int, longest: int, tolerance: float,
) -> list[dict[str, Any]]:  # fmt: skip
    """Run both on the same random input; one entry a shape: batch, sequence, largest difference of each output.

    Rows end in padding of random length. Raises ParityError when a shape fails or a difference is above `tolerance`.
    """
    session = _session(onnx_file)
    random = np.random.default_rng(0)
    cases = []
    for batch, wished in SHAPES:
        sequence = min(wished, longest)
        feeds = random_input(random, inputs, batch=batch, sequence=sequence, vocabulary=vocabulary)
        try:
            answers = session.run(list(outputs), dict(feeds))
        except Exception as error:  # onnxruntime's own classes derive from nothing narrower
            raise ParityError(f"{onnx_file.name} does not run at {batch} x {sequence}: {error}") from error
        wanted = original(feeds)
        difference = {}
        for name, answer in zip(outputs, answers, strict=True):
            if answer.shape != wanted[name].shape:
                raise ParityError(f"{name} at {batch} x {sequence}: shape {answer.shape}, not {wanted[name].shape}")
            difference[name] = float(np.max(np.abs(answer - wanted[name])))
            if not difference[name] <= tolerance:  # also when it is no number
                raise ParityError(
                    f"{name} at {batch} x {sequence} is {difference[name]:.1e} from the original, more than "
                    f"{tolerance:.1e}"
                )
        cases.append({"batch": batch, "sequence": sequence, "difference": difference})
    return cases


def random_input(
    random: np.random.Generator, inputs: Sequence[str], *, batch: int, sequence: int, vocabulary: int
) -> Tensors:
    """int32 [batch, sequence] for each input: tokens, a mask with padding at the end, segments 0 then 1."""
    lengths = random.integers(1, sequence + 1, size=(batch, 1))
    mask = (np.arange(sequence) < lengths).astype(np.int32)
    tokens = random.integers(0, vocabulary, size=(batch, sequence), dtype=np.int32)
    segments = (np.arange(sequence) >= lengths // 2).astype(np.int32) * mask
    return {name: {"attention_mask": mask, "token_type_ids": segments}.get(name, tokens) for name in inputs}


def _session(onnx_file: Path) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(str(onnx_file), settings, providers=["CPUExecutionProvider"])
