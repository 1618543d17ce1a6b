"""What loading any pretrained transformers model has in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from model_code.sources import parse_hub


class ModelError(ValueError):
    """A model that cannot be used."""


def located(source: str) -> tuple[str, dict[str, Any]]:
    """(name, keywords of `from_pretrained`) of a folder or `hf://owner/name@revision`.

    Raises ModelError for a folder that is none, SourceError for a hub name without a pinned revision.
    """
    if source.startswith("hf://"):
        hub = parse_hub(source)
        return hub.name, {"revision": hub.revision}
    if not (Path(source) / "config.json").is_file():
        raise ModelError(f"{source}: no config.json there; give a model's folder or hf://owner/name@revision")
    return source, {}


@contextlib.contextmanager
def told(source: str) -> Iterator[None]:
    """Turn what transformers raises for a model that is missing, closed or damaged into ModelError, in one line."""
    try:
        yield
    except Exception as error:  # transformers, the hub's client, safetensors and tokenizers raise many kinds
        raise ModelError(f"{source}: cannot be loaded: {' '.join(str(error).split())}") from error


def longest(config: Any, tokenizer: Any, *, unknown: int) -> int:
    """Tokens that model and tokenizer take; `unknown` where the model's configuration names no number of positions."""
    positions = int(getattr(config, "max_position_embeddings", unknown))
    # RoBERTa starts counting positions after the padding id, so two of its 514 positions are never used.
    if "roberta" in config.model_type:
        positions -= int(config.pad_token_id) + 1
    return min(positions, int(tokenizer.model_max_length))
