"""A tiny random encoder with its own tokenizer, and sentences that it can learn, made on the spot."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

WORDS = {
    0: ["bad", "awful", "broken", "boring", "stale"],
    1: ["good", "lovely", "solid", "funny", "fresh"],
    2: ["plain", "usual", "average", "known", "square"],
}
FILLER = [
    "the",
    "film",
    "soup",
    "a",
    "phone",
    "was",
    "and",
    "very",
    "it",
    "is",
    "this",
    "place",
    "room",
    "?",
    "!",
]


def sentences(count: int, *, labels: int, seed: int) -> tuple[list[str], list[int]]:
    """Sentences of 3 to 14 words, each with one or two words that give its label away."""
    chance = random.Random(seed)
    texts, ids = [], []
    for number in range(count):
        label = number % labels
        words = chance.choices(FILLER, k=chance.randint(2, 12)) + chance.sample(WORDS[label], chance.randint(1, 2))
        chance.shuffle(words)
        texts.append(" ".join(words))
        ids.append(label)
    return texts, ids


def write_data(folder: Path, *, labels: int = 2, train: int = 177, seed: int = 0, test: bool = True) -> Path:
    """A folder in the text layout."""
    folder.mkdir(parents=True)
    names = ["negative", "positive", "neutral"][:labels]
    (folder / "mapping.txt").write_text("".join(f"{i}\t{name}\n" for i, name in enumerate(names)))
    for offset, (split, size) in enumerate({"train": train, "val": 20, "test": 20 if test else 0}.items()):
        if size:
            texts, ids = sentences(size, labels=labels, seed=seed * 10 + offset)
            (folder / f"{split}_text.txt").write_text("".join(f"{text}\n" for text in texts))
            (folder / f"{split}_labels.txt").write_text("".join(f"{label}\n" for label in ids))
    return folder


def write_base(folder: Path, *, family: str = "bert", dropout: float = 0.1, layers: int = 2) -> Path:
    """A base model's folder: config, random weights, tokenizer."""
    torch.manual_seed(0)
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    vocabulary = {word: i for i, word in enumerate(special + FILLER + [word for row in WORDS.values() for word in row])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>",
        model_max_length=40,
    ).save_pretrained(folder)  # fmt: skip
    shape: dict[str, Any] = {
        "vocab_size": len(vocabulary), "hidden_size": 32, "num_hidden_layers": layers, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 40, "pad_token_id": 0,
        "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
    }  # fmt: skip
    model = BertModel(BertConfig(**shape)) if family == "bert" else RobertaModel(RobertaConfig(**shape))
    model.save_pretrained(folder)
    return folder
