"""How far an engine's answers are from those of the ONNX file in float32, on tokens of real texts."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model_code.text_encoding import trtexec
from model_code.text_encoding.trtexec import TrtexecError

Arrays = Mapping[str, npt.NDArray[Any]]


class SamplesError(ValueError):
    """Sample inputs that an engine cannot be compared on."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Over all outputs: the lowest cosine similarity of a text's vector, and the largest difference of a number.

    A vector is a text's pooled output, or one of its tokens that is no padding. NaN where an answer is no number.
    """

    similarity: float
    largest: float


def samples(path: Path, inputs: Sequence[str], *, batch: int, sequence: int) -> Arrays:
    """int32 [at most `batch`, `sequence`] of each input, from an .npz file as calibration takes it.

    Raises SamplesError.
    """
    try:
        with np.load(path) as file:
            found = {name: np.asarray(file[name][:batch]) for name in inputs}
    except (OSError, ValueError, KeyError) as error:
        raise SamplesError(f"{path}: no .npz file with {', '.join(inputs)} ({error})") from error
    for name, array in found.items():
        if array.ndim != 2 or len(array) == 0 or array.shape[1] < sequence:
            raise SamplesError(
                f"{path}: {name} has shape {array.shape}; it must be [samples, {sequence} tokens or more]"
            )
    return {name: np.ascontiguousarray(array[:, :sequence], dtype=np.int32) for name, array in found.items()}


def reference(onnx_file: Path, inputs: Arrays) -> Arrays:
    """What the ONNX file answers in float32 on the CPU: output name → array."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(onnx_file), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def engine_answers(plan: Path, inputs: Arrays) -> Arrays:
    """What an engine answers, by trtexec on this machine's GPU. Raises TrtexecError."""
    batch, sequence = next(iter(inputs.values())).shape
    with tempfile.TemporaryDirectory() as work:
        files = {name: Path(work) / f"{name}.bin" for name in inputs}
        for name, path in files.items():
            inputs[name].astype(np.int32).tofile(path)
        target = Path(work) / "outputs.json"
        command = trtexec.answering(plan, files, (batch, sequence), target)
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise TrtexecError(f"cannot run {command[0]}: {error}") from error
        if done.returncode != 0 or not target.is_file():
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise TrtexecError(f"trtexec ended with status {done.returncode} and no outputs: {''.join(last)}")
        found = trtexec.answered(target.read_text(encoding="utf-8"))
    try:
        return {name: np.array(values, np.float32).reshape(size) for name, (size, values) in found.items()}
    except ValueError as error:
        raise TrtexecError(f"trtexec exported outputs of other sizes than it says: {error}") from error


def difference(ours: Arrays, wanted: Arrays, *, mask: npt.NDArray[Any]) -> Difference:
    """Compare answers; what an answer has at padding (`mask` is 0) does not matter. Raises TrtexecError.

    :param ours: the engine's, [batch, hidden] or [batch, sequence, hidden] of each output
    :param mask: int32 [batch, sequence]
    """
    similarities, largest = [], []
    for name, right in wanted.items():
        if name not in ours or ours[name].shape != right.shape:
            got = ours[name].shape if name in ours else "none"
            raise TrtexecError(f"output {name}: shape {got} of the engine, {right.shape} of the ONNX file")
        kept = mask.astype(bool) if right.ndim == 3 else np.ones(len(right), bool)
        one, other = ours[name][kept].astype(np.float64), right[kept].astype(np.float64)
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        similarities.append(np.min((one * other).sum(1) / np.maximum(lengths, 1e-12)))
        largest.append(np.max(np.abs(one - other)))
    # min and max of numpy keep NaN; Python's own would lose it.
    return Difference(similarity=float(np.min(similarities)), largest=float(np.max(largest)))
