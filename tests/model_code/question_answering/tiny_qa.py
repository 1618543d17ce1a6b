"""A tiny random BERT for question answering with its own WordPiece tokenizer, and texts to ask about."""

from __future__ import annotations

import random
import string
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast

_TEXT = """
the a of in on who what where when why how is was did does river bridge city king queen year train coffee engine built
found moved north south old new first last 1843 1901 seven hundred stone glass garden winter museum library
"""
WORDS = tuple(_TEXT.split())
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_model(folder: Path, *, positions: int = 128, layers: int = 2, seed: int = 0, head: bool = True) -> Path:
    """A model's folder. Weights are wide, so that spans differ in score; without `head` the encoder alone."""
    torch.manual_seed(seed)
    letters = string.ascii_lowercase + string.digits + "éüßñ中文字"
    pieces = [*SPECIAL, *WORDS, *letters, *(f"##{letter}" for letter in letters), *string.punctuation]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=positions,
    ).save_pretrained(folder)  # fmt: skip
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=positions, pad_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    model = BertForQuestionAnswering(config)
    (model if head else model.bert).save_pretrained(folder)
    return folder


def questions(count: int, *, longest: int, seed: int) -> list[tuple[str, str]]:
    """(question, context) pairs; contexts of 3 to `longest` words."""
    chance = random.Random(seed)
    pairs = []
    for _ in range(count):
        question = " ".join(chance.choices(WORDS, k=chance.randint(2, 6))) + "?"
        context = " ".join(chance.choices([*WORDS, "Café", "中文", "x-ray,"], k=chance.randint(3, longest)))
        pairs.append((question, context))
    return pairs


def trace_arguments(model: Path, output: Path, *extra: str) -> list[str]:
    """Arguments of trace.py for the CPU and small shapes."""
    return [
        "--model", str(model), "--output", str(output), "--backend", "cpu", "--batch-sizes", "1,4,8",
        "--lengths", "32,64,128", "--stride", "16", "--max-answer-tokens", "8", *extra,
    ]  # fmt: skip
