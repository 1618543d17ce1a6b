"""Score a model on a split, shared out over the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from model_code.sentiment.batches import pad, plan_evaluation
from model_code.sentiment.metrics import scores
from model_code.sentiment.ranks import Ranks


def score(
    model: Any,
    ids: Sequence[Sequence[int]],
    labels: Sequence[int],
    *,
    label_count: int,
    pad_id: int,
    longest: int,
    batch: int,
    bf16: bool,
    ranks: Ranks,
) -> dict[str, Any]:
    """metrics.scores of the whole split and its mean loss, the same on every rank. `batch` is sentences per rank."""
    matrix = torch.zeros(label_count, label_count, dtype=torch.int64, device=ranks.device)
    loss = torch.zeros((), device=ranks.device)
    model.eval()
    for chosen in plan_evaluation([len(row) for row in ids], batch=batch)[ranks.rank :: ranks.count]:
        inputs = pad([ids[i] for i in chosen], pad_id=pad_id, longest=longest)
        wanted = torch.tensor([labels[i] for i in chosen], device=ranks.device)
        with torch.no_grad(), torch.autocast(ranks.device.type, dtype=torch.bfloat16, enabled=bf16):
            logits = model(**{name: value.to(ranks.device) for name, value in inputs.items()}).logits
        loss += torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="sum")
        pairs = wanted * label_count + logits.argmax(dim=-1)
        matrix += torch.bincount(pairs, minlength=label_count**2).view(label_count, label_count)
    return {"loss": round(ranks.sum(loss).item() / len(ids), 6), **scores(ranks.sum(matrix).tolist())}
