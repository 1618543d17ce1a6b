"""Load a base model with a fresh head for our labels, and a saved model again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from model_code.sentiment.labels import labels_of_config
from model_code.sources import parse_hub


class ModelError(ValueError):
    """A model folder that cannot be used."""


def load_base(source: str, labels: list[str]) -> tuple[Any, Any]:
    """(model, tokenizer) from a folder or `hf://owner/name@revision`, float32, with a head for `labels`."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    where: dict[str, Any] = {}
    if source.startswith("hf://"):
        hub = parse_hub(source)
        source, where = hub.name, {"revision": hub.revision}
    elif not (Path(source) / "config.json").is_file():
        raise ModelError(f"{source}: no config.json there; give a model's folder or hf://owner/name@revision")
    config = AutoConfig.from_pretrained(  # nosec B615 - the revision is in `where`, or the model is local
        source,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
        problem_type="single_label_classification",
        **where,
    )
    # A base that brings a head with another number of labels gets a fresh one.
    model = AutoModelForSequenceClassification.from_pretrained(
        source, config=config, ignore_mismatched_sizes=True, **where
    )
    return model.float(), AutoTokenizer.from_pretrained(source, **where)


def load_saved(folder: Path) -> tuple[Any, Any, list[str]]:
    """(model in evaluation mode, tokenizer, labels) of a folder that train.py wrote."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder}: no config.json there")
    labels = labels_of_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    return model.float().eval(), AutoTokenizer.from_pretrained(folder), labels


def longest_input(model: Any, tokenizer: Any, max_length: int) -> int:
    """`max_length`, or less where the model knows fewer positions. Tokens."""
    # RoBERTa starts counting positions after the padding id, so two of its 514 positions are never used.
    config = model.config
    positions = int(getattr(config, "max_position_embeddings", max_length))
    if "roberta" in config.model_type:
        positions -= int(config.pad_token_id) + 1
    return min(max_length, positions, int(tokenizer.model_max_length))
