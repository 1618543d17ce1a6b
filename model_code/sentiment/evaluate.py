"""Score a saved model on a split: accuracy, macro recall, macro F1 and the confusion matrix.

python -m model_code.sentiment.evaluate --model DIR --data DIR --split test [--report scores.json]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from model_code.pretrained import ModelError
from model_code.sentiment.batches import encode
from model_code.sentiment.data import SPLITS, Data, DataError, load
from model_code.sentiment.labels import LabelError
from model_code.sentiment.models import load_saved, longest_input
from model_code.sentiment.ranks import Ranks
from model_code.sentiment.scoring import score


def main(argv: list[str] | None = None) -> int:
    """Evaluate; returns the exit status. What the user can put right is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m model_code.sentiment.evaluate",
        description="Score a saved model on a split of labelled sentences.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--model", required=True, type=Path, help="folder that train.py wrote")
    parser.add_argument("--data", required=True, help="a folder, or hf://owner/name[/config]@revision")
    parser.add_argument("--split", choices=SPLITS, default="test", help="which sentences")
    parser.add_argument("--batch-size", type=int, default=64, help="sentences of one forward pass")
    parser.add_argument("--max-length", type=int, default=128, help="tokens kept of each sentence")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    parser.add_argument("--report", type=Path, help="also write the scores as JSON")
    options = parser.parse_args(argv)
    ranks = Ranks.join()
    try:
        report = evaluate(options, load(options.data), ranks)
    except (DataError, ModelError, LabelError) as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 2
    finally:
        ranks.leave()
    if ranks.first:
        show(report)
        if options.report:
            options.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def evaluate(options: argparse.Namespace, data: Data, ranks: Ranks) -> dict[str, Any]:
    """metrics.scores of the split, with its name, size and labels; model and data must agree on these."""
    if options.split not in data.splits:
        raise DataError(f"{options.data}: has no split {options.split}")
    model, tokenizer, labels = load_saved(options.model)
    if labels != data.labels:
        raise DataError(f"the model's labels are {labels}, those of {options.data} are {data.labels}")
    split = data.splits[options.split]
    longest = longest_input(model, tokenizer, options.max_length)
    found = score(
        model.to(ranks.device), encode(tokenizer, split.texts, max_length=longest), split.labels,
        label_count=len(labels), pad_id=tokenizer.pad_token_id, longest=longest, batch=options.batch_size,
        bf16=options.bf16, ranks=ranks,
    )  # fmt: skip
    return {"split": options.split, "size": len(split), "labels": labels, **found}


def show(report: dict[str, Any]) -> None:
    """Print a report for people."""
    print(f"{report['split']}: {report['size']} sentences")
    for name in ("accuracy", "macro_recall", "macro_f1"):
        print(f"{name:13} {report[name]:.4f}")
    width = max(map(len, report["labels"])) + 2
    print("true \\ said".ljust(width) + "".join(label.rjust(width) for label in report["labels"]))
    for label, row in zip(report["labels"], report["confusion_matrix"], strict=True):
        print(label.ljust(width) + "".join(str(count).rjust(width) for count in row))


if __name__ == "__main__":
    sys.exit(main())
