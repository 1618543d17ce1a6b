"""What a training leaves: the model's folder, and the files beside it that say what the model is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_code.sentiment.data import Data
from model_code.sentiment.probing import write_probe

METRICS = "metrics.json"
RUN = "run.json"
# Points of the loss curve.
POINTS = 100


def write_output(folder: Path, *, model: Any, tokenizer: Any, data: Data, record: Mapping[str, Any]) -> None:
    """config.json, model.safetensors, tokenizer, probe.json, run.json, pictures; at last metrics.json.

    metrics.json says that the rest is whole. It holds the scores and nothing that differs from run to run, for it goes
    into the archive that is served: the same weights give the same archive.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).unlink(missing_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_probe(folder, data.splits[data.held_out])
    _write(folder / RUN, record)
    _draw(folder, record)
    scores = {
        "schema": 1,
        "best_epoch": record["best_epoch"],
        "epochs": [{name: entry[name] for name in entry if name != "seconds"} for entry in record["epochs"]],
        "held_out": record["held_out"],
        "data": {
            "labels": data.labels,
            "sizes": {name: len(split) for name, split in data.splits.items()},
            "sha256": data.sha256(),
        },
    }
    _write(folder / METRICS, scores)


def thin_out(losses: list[float], *, points: int = POINTS) -> list[tuple[int, float]]:
    """(step, mean loss of the stretch that ends there) for at most so many stretches of the same length."""
    stretch = -(-len(losses) // points)
    ends = [*range(stretch, len(losses), stretch), len(losses)]
    starts = [0, *ends]
    return [
        (end, round(sum(losses[start:end]) / (end - start), 6))
        for start, end in zip(starts, ends)  # noqa: B905
    ]


def _draw(folder: Path, record: Mapping[str, Any]) -> None:
    try:
        from model_code.sentiment.pictures import draw

        draw(folder, record=record)
    except Exception as error:  # hours of training are not lost for a picture
        print(f"the pictures could not be drawn: {type(error).__name__}: {error}", flush=True)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)
