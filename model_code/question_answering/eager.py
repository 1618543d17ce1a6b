"""Load the model that is to be compiled, and record what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from model_code.pretrained import ModelError, located, longest, told


@dataclass(frozen=True, kw_only=True)
class EagerModel:
    """A model with its tokenizer.

    :param inputs: names of what `module` takes, in order
    :param max_length: tokens that it has positions for
    """

    module: torch.nn.Module
    tokenizer: Tokenizer
    architecture: str
    inputs: list[str]
    max_length: int
    vocabulary: int
    pad_token_id: int


class _Positional(torch.nn.Module):
    """Inputs by position, and the two logits as a plain tuple: what tracing wants."""

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = list(names)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = self.model(**dict(zip(self.names, inputs, strict=True)), return_dict=False)[:2]
        return start, end


def load(source: str) -> EagerModel:
    """A model in a folder or at `hf://owner/name@revision`, float32, in evaluation mode. Raises ModelError."""
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    name, where = located(source)
    with told(source):
        model, info = AutoModelForQuestionAnswering.from_pretrained(  # nosec B615 - pinned by `where`, or local
            name, output_loading_info=True, **where
        )
        tokenizer = AutoTokenizer.from_pretrained(name, **where)
    # transformers fills what a folder lacks with random weights, and only warns.
    missing = sorted(key for key in info["missing_keys"] if ".pooler." not in key)
    if missing:
        raise ModelError(f"{source}: no question-answering model: the weights lack {missing[0]}")
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"{source}: needs a fast tokenizer (tokenizer.json), which knows characters' places")
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ModelError(f"{source}: the tokenizer has no vocabulary")
    backend: Tokenizer = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    if backend.encode("a", "b").ids[0] != tokenizer.cls_token_id:
        raise ModelError(f"{source}: a row must begin with the token whose score means that there is no answer")
    inputs = ["input_ids", "attention_mask"]
    # RoBERTa has the argument, too, but only one type.
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs.append("token_type_ids")
    return EagerModel(
        module=_Positional(model.float(), inputs).eval(),
        tokenizer=backend,
        architecture=type(model).__name__,
        inputs=inputs,
        max_length=longest(model.config, tokenizer, unknown=512),
        vocabulary=int(model.config.vocab_size),
        pad_token_id=int(tokenizer.pad_token_id or 0),
    )


def reference(model: EagerModel, *, rows: int, length: int) -> dict[str, NDArray[Any]]:
    """Random rows of all sorts of real lengths, each array (rows, length), and the eager float32 logits for them."""
    chance = np.random.default_rng(length)
    real = np.linspace(length, max(2, length // 8), rows).astype(int)
    mask = (np.arange(length) < real[:, None]).astype(np.int64)
    ids = np.where(mask == 1, chance.integers(0, model.vocabulary, (rows, length)), model.pad_token_id)
    types = np.where(np.arange(length) >= (real // 3)[:, None], mask, 0)
    named = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    with torch.inference_mode():
        start, end = model.module(*(torch.from_numpy(named[name]) for name in model.inputs))
    small = {name: array.astype(np.int32) for name, array in named.items()}
    return {**small, "start": start.float().numpy(), "end": end.float().numpy()}
