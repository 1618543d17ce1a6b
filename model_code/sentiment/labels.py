"""Label names. They come from the data's mapping file; nothing else in the project knows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


class LabelError(ValueError):
    """A mapping that cannot be used; the message names the line."""


def parse_mapping(text: str, *, name: str) -> list[str]:
    """Label names in the order of their ids, from lines `<id><tab><label>`.

    `name` is the file's in messages. Ids must be 0 to n-1, each once; names must differ. Raises LabelError.
    """
    labels: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        key, tab, label = line.partition("\t")
        label = label.strip()
        if not tab or not re.fullmatch("[0-9]{1,9}", key.strip()) or not label:
            raise LabelError(f"{name}:{number}: expected '<id><tab><label>', found {line[:80]!r}")
        if int(key) in labels:
            raise LabelError(f"{name}:{number}: id {int(key)} appears twice")
        if label in labels.values():
            raise LabelError(f"{name}:{number}: label {label!r} appears twice")
        labels[int(key)] = label
    if len(labels) < 2:
        raise LabelError(f"{name}: needs at least two labels, has {len(labels)}")
    if sorted(labels) != list(range(len(labels))):
        raise LabelError(f"{name}: ids must be 0 to {len(labels) - 1} without a gap, found {sorted(labels)}")
    return [labels[index] for index in range(len(labels))]


def format_mapping(labels: list[str]) -> str:
    """The text of a mapping file for `labels`."""
    return "".join(f"{index}\t{label}\n" for index, label in enumerate(labels))


def labels_of_config(config: Mapping[str, Any]) -> list[str]:
    """Label names of a saved model's config.json, in the order of the model's outputs. Raises LabelError."""
    id2label = config.get("id2label")
    if not isinstance(id2label, Mapping):
        raise LabelError("config.json has no id2label")
    text = "".join(f"{key}\t{value}\n" for key, value in id2label.items())
    return parse_mapping(text, name="config.json id2label")
