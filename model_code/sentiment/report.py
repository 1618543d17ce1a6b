"""What a training leaves: the model's folder, probe.json and metrics.json."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from model_code.sentiment.data import Data
from model_code.sentiment.probing import write_probe
from model_code.sentiment.ranks import Ranks

METRICS = "metrics.json"


def write_output(
    folder: Path,
    *,
    model: Any,
    tokenizer: Any,
    data: Data,
    history: list[dict[str, Any]],
    held_out: Mapping[str, Any],
    arguments: Mapping[str, Any],
    ranks: Ranks,
) -> None:
    """config.json, model.safetensors, tokenizer, probe.json; then metrics.json, which says that the rest is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).unlink(missing_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_probe(folder, data.splits[data.held_out])
    best = max(history, key=lambda entry: float(entry["macro_recall"]))
    report = {
        "schema": 1,
        "best_epoch": best["epoch"],
        "epochs": history,
        "held_out": dict(held_out),
        "data": {
            "labels": data.labels,
            "sizes": {name: len(split) for name, split in data.splits.items()},
            "sha256": data.sha256(),
        },
        "arguments": {name: str(value) if isinstance(value, Path) else value for name, value in arguments.items()},
        "ranks": ranks.count,
        "device": ranks.device.type,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    partial = folder / f".{METRICS}"
    partial.write_text(text, encoding="utf-8")
    partial.replace(folder / METRICS)


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
