"""Load a base model with a fresh head for our labels, and a saved model again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from model_code.pretrained import ModelError, located, longest, told
from model_code.sentiment.labels import labels_of_config


def load_base(source: str, labels: list[str]) -> tuple[Any, Any]:
    """(model, tokenizer) from a folder or `hf://owner/name@revision`, float32, with a head for `labels`."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    source, where = located(source)
    with told(source):
        config = AutoConfig.from_pretrained(  # nosec B615 - the revision is in `where`, or the model is local
            source,
            id2label=dict(enumerate(labels)),
            label2id={label: index for index, label in enumerate(labels)},
            problem_type="single_label_classification",
            **where,
        )
        # A base that brings a head with another number of labels gets a fresh one.
        model, info = AutoModelForSequenceClassification.from_pretrained(
            source, config=config, ignore_mismatched_sizes=True, output_loading_info=True, **where
        )
        tokenizer = AutoTokenizer.from_pretrained(source, **where)
    # transformers fills what a folder lacks with random weights and an empty vocabulary, and only warns.
    encoder = f"{model.base_model_prefix}."
    missing = sorted(name for name in info["missing_keys"] if name.startswith(encoder) and ".pooler." not in name)
    if missing:
        raise ModelError(f"{source}: {len(missing)} of the encoder's weights are missing, such as {missing[0]}")
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ModelError(f"{source}: the tokenizer has no vocabulary")
    return model.float(), tokenizer


def load_saved(folder: Path) -> tuple[Any, Any, list[str]]:
    """(model in evaluation mode, tokenizer, labels) of a folder that train.py wrote."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder}: no config.json there")
    with told(str(folder)):
        labels = labels_of_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
        model = AutoModelForSequenceClassification.from_pretrained(folder)
        return model.float().eval(), AutoTokenizer.from_pretrained(folder), labels


def longest_input(model: Any, tokenizer: Any, max_length: int) -> int:
    """`max_length`, or less where the model knows fewer positions. Tokens."""
    return min(max_length, longest(model.config, tokenizer, unknown=max_length))
