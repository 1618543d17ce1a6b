"""model.json: what a compiled model is and how to answer with it. Standard library only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model_code.shapes import ShapeError, StaticShapes

NAME = "model.json"
REFERENCE = "reference.npz"
SCHEMA = 1
TASK = "question-answering"


class ManifestError(ValueError):
    """A folder that is no compiled model, or one of another version."""


@dataclass(frozen=True, kw_only=True)
class CompiledShape:
    """One compiled shape.

    :param file: name in the model's folder; several shapes may share one
    :param max_abs_difference: largest difference of a logit to the eager float32 model; None where it was compiled
        on a machine that cannot run it (the server then measures it before it is ready)
    """

    batch: int
    length: int
    file: str
    max_abs_difference: float | None


@dataclass(frozen=True, kw_only=True)
class Answering:
    """How windows are cut and answers chosen.

    :param stride: tokens that two neighbouring windows share
    :param max_answer_tokens: longest answer
    :param null_threshold: no answer when its score is better than the best answer's by more than this (logits);
        None: there is always an answer
    """

    stride: int
    max_answer_tokens: int
    null_threshold: float | None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What model.json says.

    :param source: `hf://owner/name@revision`, or the folder's name of a local model
    :param inputs: names of the model's inputs, in order, each int64 (batch, length)
    :param tolerance: largest allowed difference to the eager model (logits)
    :param neuron_sdk: release that compiled it; None on the CPU
    """

    source: str
    architecture: str
    backend: str
    dtype: str
    compiler_args: list[str]
    neuron_sdk: str | None
    versions: dict[str, str]
    inputs: list[str]
    pad_token_id: int
    tolerance: float
    tokenizer_files: list[str]
    answering: Answering
    shapes: list[CompiledShape]

    @property
    def static_shapes(self) -> StaticShapes:
        """Batch sizes and lengths. Raises ManifestError when a pair of them is missing."""
        try:
            shapes = StaticShapes(
                batch_sizes=tuple(sorted({shape.batch for shape in self.shapes})),
                lengths=tuple(sorted({shape.length for shape in self.shapes})),
            )
        except ShapeError as error:
            raise ManifestError(f"{NAME}: {error}") from error
        missing = set(shapes) - {(shape.batch, shape.length) for shape in self.shapes}
        if missing:
            raise ManifestError(f"{NAME}: batch size and length {min(missing)} are missing among the shapes")
        return shapes


def write(manifest: Manifest, folder: Path) -> None:
    """Write model.json."""
    document = {"schema": SCHEMA, "task": TASK, **asdict(manifest)}
    (folder / NAME).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read(folder: Path) -> Manifest:
    """Read model.json and check that its files are there. Raises ManifestError."""
    path = folder / NAME
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError(f"{folder}: no {NAME} there; give the output folder of trace.py") from None
    except ValueError as error:
        raise ManifestError(f"{path}: not valid JSON: {error}") from error
    found = (document.pop("schema", None), document.pop("task", None))
    if found != (SCHEMA, TASK):
        raise ManifestError(f"{path}: schema and task are {found}, this code reads {(SCHEMA, TASK)}")
    try:
        shapes = [CompiledShape(**shape) for shape in document.pop("shapes")]
        answering = Answering(**document.pop("answering"))
        manifest = Manifest(**document, shapes=shapes, answering=answering)
    except (KeyError, TypeError) as error:
        raise ManifestError(f"{path}: not as trace.py writes it: {error}") from error
    for name in {REFERENCE, *manifest.tokenizer_files, *(shape.file for shape in shapes)}:
        if not (folder / name).is_file():
            raise ManifestError(f"{folder}: {name!r}, which {NAME} names, is missing")
    return manifest
