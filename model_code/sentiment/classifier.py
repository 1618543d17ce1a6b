"""A trained model that judges texts; needs torch and transformers only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from model_code.sentiment.buckets import padded_width, plan
from model_code.sentiment.labels import labels_of_config


class Classifier:
    """The model in `folder`; `labels` are its outputs in order."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.labels = labels_of_config(config)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        model, info = AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
        if info["missing_keys"]:  # transformers would make them up
            raise ValueError(f"{folder}: weights are missing: {', '.join(sorted(info['missing_keys']))}")
        self.model = model.float().eval()
        # RoBERTa counts positions from behind the padding id: 2 of its 514 can't be used.
        spare = int(config["pad_token_id"]) + 1 if "roberta" in config["model_type"] else 0
        self.max_length = int(config["max_position_embeddings"]) - spare

    def scores(self, texts: Sequence[str]) -> list[list[float]]:
        """Probability of every label (columns) for every text (rows); texts are cut at the model's limit."""
        ids = self.tokenizer(list(texts), truncation=True, max_length=self.max_length)["input_ids"]
        rows: list[list[float]] = [[] for _ in ids]
        for chosen in plan([len(row) for row in ids], longest=self.max_length):
            inputs = self._pad([ids[index] for index in chosen])
            with torch.inference_mode():
                probabilities = self.model(**inputs).logits.float().softmax(dim=-1)
            for index, row in zip(chosen, probabilities.tolist()):  # noqa: B905 - sizes are equal
                rows[index] = row
        return rows

    def _pad(self, ids: list[list[int]]) -> dict[str, torch.Tensor]:
        width = padded_width(max(map(len, ids)), longest=self.max_length)
        padding = self.tokenizer.pad_token_id
        return {
            "input_ids": torch.tensor([row + [padding] * (width - len(row)) for row in ids]),
            "attention_mask": torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids]),
        }
