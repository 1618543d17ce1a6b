"""The command line of train.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from model_code.argument_types import count, positive


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Arguments with every default filled in."""
    parser = argparse.ArgumentParser(
        prog="python -m model_code.sentiment.train",
        description="Fine-tune a pretrained encoder to tell sentiment.",
        epilog="On every GPU: torchrun --standalone --nproc-per-node=gpu -m model_code.sentiment.train ...",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    files = parser.add_argument_group("what to read and write")
    files.add_argument("--base-model", required=True, help="a model's folder, or hf://owner/name@revision")
    files.add_argument(
        "--data", required=True, help="a folder in the text layout, or hf://owner/name[/config]@revision"
    )
    files.add_argument("--output", required=True, type=Path, help="folder for the trained model and metrics.json")
    files.add_argument("--checkpoints", required=True, type=Path, help="folder to save to and to resume from")

    recipe = parser.add_argument_group("recipe")
    recipe.add_argument("--epochs", type=count, default=3, help="passes over the training split")
    recipe.add_argument("--learning-rate", type=positive, default=2e-5, help="peak; falls linearly to 0")
    recipe.add_argument("--batch-size", type=count, default=16, help="sentences per device and step")
    recipe.add_argument("--max-length", type=count, default=128, help="tokens kept of each sentence")
    recipe.add_argument("--weight-decay", type=_share, default=0.01, help="for weights; none for biases and norms")
    recipe.add_argument("--warmup-ratio", type=_share, default=0.06, help="share of steps with a rising rate")
    recipe.add_argument("--seed", type=int, default=42, help="fixes head, order of sentences and dropout")

    speed = parser.add_argument_group("speed")
    speed.add_argument("--torch-compile", action=argparse.BooleanOptionalAction, default=False,
                       help="compile the model first; pays off from some thousand steps")  # fmt: skip
    speed.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=False,
                       help="matrix products in bfloat16; weights stay float32")  # fmt: skip
    speed.add_argument("--fused-adamw", action=argparse.BooleanOptionalAction, default=False,
                       help="one kernel for the whole optimizer step")  # fmt: skip

    pace = parser.add_argument_group("pace")
    pace.add_argument("--checkpoint-steps", type=int, default=500,
                      help="also save every so many steps; 0: only after each epoch")  # fmt: skip
    pace.add_argument("--log-seconds", type=float, default=15.0, help="print progress about so often")
    return parser.parse_args(argv)


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not in [0, 1)")
    return value
