"""Write probe.json: questions with their answers, from the trained model itself. `probe` has the file's form.

What packaging and serving share is not imported: a change there must not train again. A test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import torch

from model_code.sentiment.classifier import Classifier
from model_code.sentiment.data import Split

PROBE = "probe.json"
# How far a score may be off (0 to 1): room for bfloat16 products on the endpoint's processor.
TOLERANCE = 0.05
# Ordinary sentences, at least; the three special ones come on top.
ORDINARY = 5
# Far below what the endpoint takes (10,000 characters).
MAX_CHARACTERS = 1_000


def write_probe(folder: Path, held_out: Split) -> None:
    """Ask the model that was saved to `folder`, on the CPU in float32 as the endpoint does, and write the answers.

    One text a request: an endpoint may be set to take no more.
    """
    classifier = Classifier(folder)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        cases = [_case(classifier, text) for text in choose_texts(held_out, classifier)]
    finally:
        torch.set_float32_matmul_precision(before)
    document = {
        "schema": 1,
        "content_type": "application/json",
        "tolerance": TOLERANCE,
        "labels": classifier.labels,
        "cases": cases,
    }
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / PROBE).write_text(text, encoding="utf-8")


def choose_texts(held_out: Split, classifier: Classifier) -> list[str]:
    """Sentences in the split's order so that each label comes first once, then a short, a foreign and a long one."""
    texts = [text for text in held_out.texts if len(text) <= MAX_CHARACTERS] or [held_out.texts[0][:MAX_CHARACTERS]]
    chosen = _spread(held_out)
    foreign = next((text for text in texts if not text.isascii()), f"{texts[0]} — café 👍")
    chosen += [min(texts, key=lambda text: (len(text), text)), foreign, _too_long(texts, classifier)]
    return list(dict.fromkeys(chosen))


def _spread(held_out: Split) -> list[str]:
    """The first sentence of every label, then the second of every label, until there are enough."""
    by_label: dict[int, list[str]] = {}
    for text, label in zip(held_out.texts, held_out.labels, strict=True):
        if len(text) <= MAX_CHARACTERS:
            by_label.setdefault(label, []).append(text)
    rounds = range(max(map(len, by_label.values()), default=0))
    spread = [by_label[label][i] for i in rounds for label in sorted(by_label) if i < len(by_label[label])]
    return spread[: max(ORDINARY, len(by_label))]


def _too_long(texts: Sequence[str], classifier: Classifier) -> str:
    """Sentences in a row until the model cannot see the last of them."""
    long = ""
    for text in cycle(texts):
        long = f"{long} {text}".strip()
        if len(classifier.tokenizer(long)["input_ids"]) > classifier.max_length:
            return long
    raise AssertionError("a cycle of no texts")


def _case(classifier: Classifier, text: str) -> dict[str, Any]:
    [scores] = classifier.scores([text])
    ranked = sorted(zip(classifier.labels, scores, strict=True), key=lambda pair: -pair[1])
    answer = [{"label": label, "score": round(score, 6)} for label, score in ranked]
    return {"request": {"inputs": [text]}, "answer": [answer]}
