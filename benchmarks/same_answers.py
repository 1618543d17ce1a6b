"""Do our passes say what the plain transformers pipeline says?

python -m benchmarks.same_answers --model DIR --texts val_text.txt
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from model_code.sentiment.classifier import Classifier
from model_code.sentiment.protocol import MAX_TEXTS


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Of `texts` texts `equal` got the same best label; `score` is the largest difference of any score.

    `margin` is the largest lead of the best label over the second, by the pipeline, where labels differ; 0: nowhere.
    """

    texts: int
    equal: int
    score: float
    margin: float

    def __str__(self) -> str:
        return (
            f"{self.equal} of {self.texts} labels equal, largest score difference {self.score:.2g}, "
            f"largest margin of another label {self.margin:.2g}"
        )


def by_pipeline(model: Path, texts: Sequence[str]) -> list[list[float]]:
    """Scores by transformers' own pipeline, one text at a time: rows per text, columns in the model's order."""
    network = AutoModelForSequenceClassification.from_pretrained(model).float()
    tokenizer = AutoTokenizer.from_pretrained(model)
    # Its own limit may be unset, or beyond the positions that the network has.
    tokenizer.model_max_length = Classifier(model).max_length
    plain = pipeline("text-classification", model=network, tokenizer=tokenizer, top_k=None, truncation=True)
    columns = network.config.label2id
    rows = []
    for answer in plain(list(texts)):
        row = [0.0] * len(columns)
        for one in answer:
            row[columns[one["label"]]] = one["score"]
        rows.append(row)
    return rows


def by_us(model: Path, texts: Sequence[str], *, bf16: bool) -> list[list[float]]:
    """Scores by the endpoint's classifier, in requests of MAX_TEXTS texts."""
    classifier = Classifier(model)
    if bf16:
        classifier.model.to(torch.bfloat16)
    return [row for at in range(0, len(texts), MAX_TEXTS) for row in classifier.scores(texts[at : at + MAX_TEXTS])]


def difference(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Difference:
    """Compare two tables of scores, a row per text."""

    def best(row: Sequence[float]) -> int:
        return row.index(max(row))

    pairs = list(zip(ours, theirs, strict=True))
    margins = [max(their) - sorted(their)[-2] for our, their in pairs if best(our) != best(their)]
    return Difference(
        texts=len(pairs),
        equal=len(pairs) - len(margins),
        score=max(abs(one - other) for our, their in pairs for one, other in zip(our, their, strict=True)),
        margin=max(margins, default=0.0),
    )


def main() -> None:
    """Print both comparisons."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_answers", description=__doc__)
    parser.add_argument("--model", required=True, type=Path, help="folder that train.py wrote")
    parser.add_argument("--texts", required=True, type=Path, help="UTF-8 file, a text a line")
    options = parser.parse_args()
    texts = [line for line in options.texts.read_text(encoding="utf-8").split("\n") if line.strip()]
    theirs = by_pipeline(options.model, texts)
    for bf16 in (False, True):
        found = difference(by_us(options.model, texts, bf16=bf16), theirs)
        print(f"{'bfloat16' if bf16 else 'float32'}: {found}", flush=True)


if __name__ == "__main__":
    main()
