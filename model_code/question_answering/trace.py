"""Compile an extractive question-answering model into static shapes.

python -m model_code.question_answering.trace --model DIR --output DIR [--backend cpu] [--help]

Writes the compiled files, tokenizer.json, reference.npz (inputs with the eager model's logits, so that whoever loads
the result can compare) and model.json. The output folder is whole or absent.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from model_code.pretrained import ModelError
from model_code.question_answering import arguments, eager
from model_code.question_answering import manifest as manifests
from model_code.question_answering.backends import Backend, BackendError, backend, versions
from model_code.question_answering.compiled import CompiledModel
from model_code.question_answering.eager import EagerModel
from model_code.question_answering.manifest import Answering, CompiledShape, Manifest
from model_code.question_answering.windows import MIN_CONTEXT_TOKENS
from model_code.shapes import StaticShapes
from model_code.sources import SourceError


class ParityError(RuntimeError):
    """A compiled model that computes something else than the eager one."""


def main(argv: list[str] | None = None) -> int:
    """Compile; returns the exit status. What the user can put right is one line on stderr."""
    options = arguments.parse(argv)
    if options.output.exists():
        print(f"trace: {options.output} exists; give a folder that does not", file=sys.stderr)
        return 2
    partial = options.output.with_name(f".{options.output.name}.partial-{os.getpid()}")
    try:
        model = eager.load(options.model)
        shapes = StaticShapes(batch_sizes=options.batch_sizes, lengths=options.lengths)
        _check_lengths(model, shapes, options.model)
        partial.mkdir(parents=True)
        compile_model(model, shapes, options, partial)
        partial.rename(options.output)
    except (BackendError, ModelError, ParityError, SourceError) as error:
        print(f"trace: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(f"written to {options.output}")
    return 0


def compile_model(model: EagerModel, shapes: StaticShapes, options: argparse.Namespace, folder: Path) -> None:
    """Fill `folder`. Raises BackendError or ParityError."""
    engine = backend(options.backend)
    torch.manual_seed(0)
    model.tokenizer.save(str(folder / "tokenizer.json"))
    recorded = {length: eager.reference(model, rows=shapes.batch_sizes[-1], length=length) for length in shapes.lengths}
    named = {f"{length}/{name}": array for length, arrays in recorded.items() for name, array in arrays.items()}
    np.savez_compressed(folder / manifests.REFERENCE, allow_pickle=False, **named)
    # The compiled module may change its dtype; the recorded logits are the float32 model's.
    model.module.to(getattr(torch, options.dtype))
    extra = [*engine.default_compiler_args, *shlex.split(options.compiler_args)]
    files = _compile_shapes(model, shapes, engine, extra, folder)
    manifest = Manifest(
        source=options.source or _name(options.model),
        architecture=model.architecture,
        backend=engine.name,
        dtype=options.dtype,
        compiler_args=extra,
        neuron_sdk=options.neuron_sdk,
        versions=versions([*engine.packages, "transformers", "tokenizers"]),
        inputs=model.inputs,
        pad_token_id=model.pad_token_id,
        tolerance=options.tolerance or _tolerance(engine, options.dtype),
        tokenizer_files=["tokenizer.json"],
        answering=Answering(
            stride=options.stride,
            max_answer_tokens=options.max_answer_tokens,
            null_threshold=options.null_threshold,
        ),
        shapes=[
            CompiledShape(batch=batch, length=length, file=files[batch, length], max_abs_difference=None)
            for batch, length in shapes
        ],
    )
    manifests.write(manifest, folder)
    if engine.runs_here():
        manifests.write(_compared(manifest, folder), folder)
    else:
        print(f"no device for {engine.name} here: the server compares with the eager model before it is ready")


def _compile_shapes(
    model: EagerModel, shapes: StaticShapes, engine: Backend, compiler_args: list[str], folder: Path
) -> dict[tuple[int, int], str]:
    """{shape: file}; prints a line for each."""
    if engine.one_file:
        largest = (shapes.batch_sizes[-1], shapes.lengths[-1])
        return dict.fromkeys(shapes, _compile(model, largest, engine, compiler_args, folder / "model.pt"))
    return {
        (batch, length): _compile(model, (batch, length), engine, compiler_args, folder / f"model-{batch}x{length}.pt")
        for batch, length in shapes
    }


def _compile(model: EagerModel, shape: tuple[int, int], engine: Backend, compiler_args: list[str], path: Path) -> str:
    started = time.monotonic()
    arrays = {name: torch.ones(shape, dtype=torch.int64) for name in model.inputs}
    if "token_type_ids" in arrays:
        arrays["token_type_ids"][:, : shape[1] // 2] = 0
    engine.compile(model.module, tuple(arrays.values()), path, compiler_args=compiler_args)
    size = path.stat().st_size / 1e6
    print(
        f"compiled batch {shape[0]}, length {shape[1]}: {time.monotonic() - started:.1f} s, {size:.1f} MB", flush=True
    )
    return path.name


def _compared(manifest: Manifest, folder: Path) -> Manifest:
    """The manifest with the differences measured. Raises ParityError."""
    compiled = CompiledModel(folder)
    shapes = []
    for shape in manifest.shapes:
        difference = compiled.difference(batch=shape.batch, length=shape.length)
        print(f"batch {shape.batch}, length {shape.length}: largest difference to eager {difference:.2e}", flush=True)
        if not difference <= manifest.tolerance:
            raise ParityError(
                f"batch {shape.batch}, length {shape.length}: a logit differs by {difference:.3g} from the eager "
                f"float32 model's; at most {manifest.tolerance:g} is allowed (--tolerance)"
            )
        shapes.append(replace(shape, max_abs_difference=difference))
    return replace(manifest, shapes=shapes)


def _check_lengths(model: EagerModel, shapes: StaticShapes, source: str) -> None:
    least = model.tokenizer.num_special_tokens_to_add(True) + 1 + MIN_CONTEXT_TOKENS
    if shapes.lengths[-1] > model.max_length:
        raise ModelError(f"{source}: has positions for {model.max_length} tokens; --lengths asks {shapes.lengths[-1]}")
    if shapes.lengths[-1] < least:
        raise ModelError(f"--lengths: the largest must be at least {least}, to hold a question and some context")


def _tolerance(engine: Backend, dtype: str) -> float:
    """Logits. bfloat16 keeps 8 bits, so logits of some ten differ by some hundredths; neuronx-cc's products are in
    bfloat16 unless it is told otherwise. A wrong weight or a lost input makes a difference of several."""
    return 1e-4 if dtype == "float32" and engine.name == "cpu" else 0.5


def _name(model: str) -> str:
    return model if model.startswith("hf://") else Path(model).resolve().name


if __name__ == "__main__":
    sys.exit(main())
