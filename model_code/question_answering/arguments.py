"""The command line of trace.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from model_code.argument_types import count, positive
from model_code.question_answering.backends import BACKENDS
from model_code.shapes import ShapeError, parse_sizes

# Neuron's documentation of release 2.31 (June 2026): "Inf1 instances are no longer supported"; the last inference
# container for it is of SDK 2.20.2, with PyTorch 1.13.1.
NO_INF1 = (
    "inf1 is no longer supported by the Neuron SDK (its last inference container is SDK 2.20.2 with PyTorch 1.13.1, "
    "and the documentation of 2.31, June 2026, drops it): use --target inf2"
)
DTYPES = ("float32", "bfloat16")


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Arguments with every default filled in."""
    parser = argparse.ArgumentParser(
        prog="python -m model_code.question_answering.trace",
        description="Compile an extractive question-answering model into static shapes.",
        epilog="Compiling for Inf2 needs no Neuron device, but the AWS Neuron packages "
        "(container pytorch-inference-neuronx).",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--model", required=True,
        help="a model's folder, or hf://owner/name@commit (for example of hf://twmkn9/bert-base-uncased-squad2)",
    )  # fmt: skip
    parser.add_argument("--output", required=True, type=Path, help="folder to make; whole or absent")
    parser.add_argument("--source", help="what model.json says of where the model is from; default: --model")

    compiling = parser.add_argument_group("compiling")
    compiling.add_argument("--backend", choices=list(BACKENDS), default="neuronx", help="what runs the result")
    compiling.add_argument("--target", default="inf2", type=_target, help="inf2; only for neuronx")
    compiling.add_argument("--batch-sizes", type=_sizes, default="1,4,8,16", help="rows of a batch")
    compiling.add_argument("--lengths", type=_sizes, default="32,64,128,256,384", help="tokens of a row")
    compiling.add_argument("--dtype", choices=DTYPES, default="float32", help="of the weights")
    compiling.add_argument("--compiler-args", default="", metavar="'--auto-cast all'",
                           help="more arguments for neuronx-cc, in one quoted text")  # fmt: skip
    compiling.add_argument("--neuron-sdk", help="release of the container, such as 2.31.1; recorded")
    compiling.add_argument(
        "--tolerance", type=positive,
        help="largest difference of a logit to the eager float32 model; default: 1e-4, and 0.5 where products are in "
        "bfloat16",
    )  # fmt: skip

    answering = parser.add_argument_group("answering")
    answering.add_argument("--stride", type=count, default=128, help="tokens that neighbouring windows share")
    answering.add_argument("--max-answer-tokens", type=count, default=30, help="longest answer")
    answering.add_argument(
        "--null-threshold", type=_threshold, default="0",
        help="no answer when its score is higher than the best answer's by more than this; 'none' for a model that "
        "was not trained on unanswerable questions",
    )  # fmt: skip
    return parser.parse_args(argv)


def _target(text: str) -> str:
    if text == "inf1":
        raise argparse.ArgumentTypeError(NO_INF1)
    if text != "inf2":
        raise argparse.ArgumentTypeError(f"{text!r}: there is inf2")
    return text


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return parse_sizes(text)
    except ShapeError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _threshold(text: str) -> float | None:
    if text == "none":
        return None
    value = float(text)
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number")
    return value
