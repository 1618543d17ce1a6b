"""Export a text encoder (any `AutoModel` encoder of transformers, a local folder) to one ONNX file.

    python -m model_code.text_encoding.export_onnx --model FOLDER --output FOLDER

Inputs, all int32 [batch, sequence], both dimensions free: input_ids, attention_mask, and token_type_ids when the model
tells segments apart. Outputs, float32: last_hidden_state [batch, sequence, hidden], pooler_output [batch, hidden] when
the model has a pooler, and on request sentence_embedding [batch, hidden], the mean of the tokens that are not padding.
Writes `model.onnx` and, last, `export.json`: what went in, the shapes, and how far the file is from the original.
The same model and the same library versions give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model_code.archive import content_sha256
from model_code.text_encoding.parity import ParityError, Tensors, compare

OUTPUTS = ("last_hidden_state", "pooler_output", "sentence_embedding")
OPSET = 18
"""The newest operator set that TensorRT 8.6 and later read whole; ReduceMean with axes as input came with it."""
TOLERANCE = 1e-4
"""Largest difference from the original, absolute; float32 with sums in another order gives about 1e-6."""


class ExportError(ValueError):
    """A model that cannot be exported; the message says what to change."""


class Encoder(torch.nn.Module):
    """An encoder with inputs in a fixed order and outputs by name."""

    def __init__(self, model: torch.nn.Module, outputs: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.outputs = tuple(outputs)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, ...]:
        """int32 [batch, sequence] each → the outputs asked for, in order."""
        segments = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        answer = self.model(input_ids=input_ids, attention_mask=attention_mask, **segments)
        found = {"last_hidden_state": answer.last_hidden_state, "pooler_output": getattr(answer, "pooler_output", None)}
        if "sentence_embedding" in self.outputs:
            weight = attention_mask.unsqueeze(-1).to(answer.last_hidden_state.dtype)
            found["sentence_embedding"] = (answer.last_hidden_state * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return tuple(found[name] for name in self.outputs)


def main(argv: list[str] | None = None) -> int:
    """Export; returns the exit status. What the user can put right is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python3 -m model_code.text_encoding.export_onnx", description="Export a text encoder to ONNX."
    )
    parser.add_argument("--model", required=True, type=Path, help="folder with config.json and weights")
    parser.add_argument("--output", required=True, type=Path, help="folder for model.onnx and export.json")
    parser.add_argument("--outputs", help=f"comma-separated, of {', '.join(OUTPUTS)} (default: the model's own)")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="largest difference from the original")
    options = parser.parse_args(argv)
    try:
        wanted = options.outputs.split(",") if options.outputs else None
        report = export(options.model, options.output, outputs=wanted, tolerance=options.tolerance)
    except (ExportError, ParityError, OSError) as error:
        print(f"export_onnx: {error}", file=sys.stderr)
        return 2
    worst = max(difference for case in report["parity"] for difference in case["difference"].values())
    print(f"{options.output / 'model.onnx'}: sha256 {report['onnx_sha256']}, at most {worst:.1e} from the original")
    return 0


def export(
    folder: Path, output: Path, *, outputs: Sequence[str] | None = None, tolerance: float = TOLERANCE
) -> dict[str, Any]:
    """Export the encoder in `folder`; returns what export.json holds. Leaves nothing half-written.

    Raises ExportError, or ParityError when the file does not answer as the original does.
    """
    model = _load(folder)
    inputs = _input_names(model)
    encoder = Encoder(model, _output_names(model, inputs, outputs)).eval()
    output.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=output, prefix=".export-"))
    try:
        target = work / "model.onnx"
        described = _write(encoder, inputs, target)
        longest = _longest(model)
        parity = compare(
            lambda feeds: _eager(encoder, inputs, feeds), target, inputs=inputs, outputs=encoder.outputs,
            vocabulary=model.config.vocab_size, longest=longest, tolerance=tolerance,
        )  # fmt: skip
        report = {
            "schema": 1,
            "model_type": model.config.model_type,
            "onnx_sha256": content_sha256(target),
            "opset": OPSET,
            "max_sequence": longest,
            **described,
            "parity": parity,
            "tolerance": tolerance,
            "versions": {"torch": torch.__version__, "transformers": _version("transformers")},
        }
        target.replace(output / "model.onnx")
        partial = work / "export.json"
        partial.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        partial.replace(output / "export.json")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return report


def _load(folder: Path) -> Any:
    if not (folder / "config.json").is_file():
        raise ExportError(f"{folder / 'config.json'} is missing: --model names a model's folder")
    from transformers import AutoModel

    try:
        # Plain matrix products and a softmax: the form that TensorRT's attention fusion knows.
        model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    except (OSError, ValueError) as error:
        raise ExportError(f"{folder}: {error}") from error
    if model.config.is_encoder_decoder or getattr(model.config, "is_decoder", False):
        raise ExportError(f"{folder}: '{model.config.model_type}' is no encoder")
    return model.eval()


def _input_names(model: Any) -> tuple[str, ...]:
    import inspect

    accepted = inspect.signature(model.forward).parameters
    missing = [name for name in ("input_ids", "attention_mask") if name not in accepted]
    if missing:
        raise ExportError(f"'{model.config.model_type}' takes no {missing[0]}: it is no text encoder")
    segments = "token_type_ids" in accepted and getattr(model.config, "type_vocab_size", 0) > 1
    return ("input_ids", "attention_mask", *(["token_type_ids"] if segments else []))


def _output_names(model: Any, inputs: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    with torch.no_grad():
        answer = model(**{name: torch.ones(1, 2, dtype=torch.int32) for name in inputs})
    own = [name for name in OUTPUTS[:2] if getattr(answer, name, None) is not None]
    if "last_hidden_state" not in own:
        raise ExportError(f"'{model.config.model_type}' gives no last_hidden_state: it is no encoder")
    for name in wanted or ():
        if name not in (*own, "sentence_embedding"):
            raise ExportError(f"--outputs: no output '{name}'; there are {', '.join((*own, 'sentence_embedding'))}")
    if len(set(wanted or ())) != len(wanted or ()):
        raise ExportError(f"--outputs: '{','.join(wanted or ())}' names an output twice")
    return tuple(wanted or own)


def _longest(model: Any) -> int:
    """Longest sequence in tokens. RoBERTa counts positions from its padding id + 1 on."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if not positions:
        raise ExportError(f"'{model.config.model_type}' sets no max_position_embeddings: how long may a text be?")
    padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    return int(positions) if padding is None else int(positions) - int(padding) - 1


def _write(encoder: Encoder, inputs: Sequence[str], target: Path) -> dict[str, Any]:
    """Write the ONNX file; returns its inputs, outputs and sizes as export.json tells them."""
    import onnx

    # Neither dimension may be 1 here: the exporter would take it for a constant.
    example = tuple(torch.ones(2, 8, dtype=torch.int32) for _ in inputs)
    axes: Any = tuple({0: "batch", 1: "sequence"} for _ in inputs)
    program = torch.onnx.export(
        encoder, example, input_names=list(inputs), output_names=list(encoder.outputs), dynamic_shapes=axes,
        opset_version=OPSET, dynamo=True, verbose=False,
    )  # fmt: skip
    if program is None:
        raise ExportError("torch.onnx.export gave no program")
    proto = program.model_proto
    _strip(proto)
    onnx.checker.check_model(proto, full_check=True)
    target.write_bytes(proto.SerializeToString(deterministic=True))
    return {
        "inputs": {value.name: _tensor(value) for value in proto.graph.input},
        "outputs": {value.name: _tensor(value) for value in proto.graph.output},
    }


def _strip(proto: Any) -> None:
    """Take out what is not the model: file paths and stack traces, which differ from machine to machine."""
    for owner in (proto, proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.initializer,
                  *proto.graph.input, *proto.graph.output, *proto.functions):  # fmt: skip
        owner.ClearField("doc_string")
        owner.ClearField("metadata_props")


def _tensor(value: Any) -> dict[str, Any]:
    """`{"dtype": "int32", "dims": [-1, -1]}` of a graph's input or output; -1 is a free dimension."""
    import onnx

    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return {"dtype": str(dtype), "dims": [size.dim_value or -1 for size in kind.shape.dim]}


def _eager(encoder: Encoder, inputs: Sequence[str], feeds: Tensors) -> Tensors:
    with torch.no_grad():
        answers = encoder(*(torch.from_numpy(feeds[name]) for name in inputs))
    return {name: np.asarray(answer) for name, answer in zip(encoder.outputs, answers, strict=True)}


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


if __name__ == "__main__":
    sys.exit(main())
