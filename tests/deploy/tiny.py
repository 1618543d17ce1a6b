"""A deployment so small that the whole cycle takes a minute: a random two-layer model and eighty made-up sentences."""

from __future__ import annotations

import random
from pathlib import Path

from stand_in.demo.without import without_section

POSITIVE = ("good", "great", "lovely", "fine", "superb", "nice")
NEGATIVE = ("bad", "awful", "poor", "dull", "broken", "nasty")
NOUNS = ("film", "meal", "phone", "room", "song", "book")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_data(folder: Path, *, seed: int = 0) -> Path:
    """The text layout: sentences whose label a single word decides."""
    generator = random.Random(seed)
    folder.mkdir(parents=True)
    (folder / "mapping.txt").write_text("0\tnegative\n1\tpositive\n")
    for split, size in (("train", 80), ("val", 20), ("test", 20)):
        rows = [
            (f"the {generator.choice(NOUNS)} was {generator.choice(POSITIVE if label else NEGATIVE)} {number}", label)
            for number, label in enumerate(generator.randrange(2) for _ in range(size))
        ]
        (folder / f"{split}_text.txt").write_text("".join(f"{text}\n" for text, _ in rows))
        (folder / f"{split}_labels.txt").write_text("".join(f"{label}\n" for _, label in rows))
    return folder


def write_base_model(folder: Path, *, seed: int = 0) -> Path:
    """A randomly initialised BERT (two layers, hidden size 32) with a word-level vocabulary."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    words = (*SPECIAL, "the", "was", *NOUNS, *POSITIVE, *NEGATIVE, *(str(number) for number in range(80)))
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in words))
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(vocabulary), model_max_length=64).save_pretrained(folder)
    return folder


def write_settings(path: Path, *, template: Path, base_model: Path, data: Path, **training: object) -> Path:
    """`deployments/local.toml` with this model, this data and these training settings, and no other workload."""
    replacements = {"base_model": f'"{base_model}"', "data": f'"{data}"'} | {
        key: repr(value).lower() if isinstance(value, bool) else str(value) for key, value in training.items()
    }
    lines = []
    left = set(replacements)
    text = without_section(without_section(template.read_text(), "text_encoding"), "question_answering")
    for line in text.splitlines():
        key = line.split("=")[0].strip()
        if key in left:
            left.discard(key)
            line = f"{key} = {replacements[key]}"
        lines.append(line)
    assert not left, f"{template} does not set {sorted(left)}"
    path.write_text("\n".join(lines) + "\n")
    return path
