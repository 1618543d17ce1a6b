"""Fine-tune a pretrained encoder to tell sentiment; reads from top to bottom.

One device:     python -m model_code.sentiment.train --base-model M --data D --output O --checkpoints C
Every GPU:      torchrun --standalone --nproc-per-node=gpu -m model_code.sentiment.train ...
Two CPU ranks:  torchrun --standalone --nproc-per-node=2 -m model_code.sentiment.train ...

Writes config.json (with the data's labels), model.safetensors, the tokenizer, probe.json and metrics.json to
--output.
Started again with the same --checkpoints it goes on where it stopped, and ends with the same weights as a run
that was never stopped.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from model_code.sentiment import arguments, checkpoints, recipe
from model_code.sentiment.batches import encode, pad, plan_epoch
from model_code.sentiment.data import DataError, load
from model_code.sentiment.models import ModelError, load_base, longest_input
from model_code.sentiment.ranks import Ranks
from model_code.sentiment.report import clock, write_output
from model_code.sentiment.scoring import score
from model_code.sources import SourceError


class TrainingError(ValueError):
    """A training that came to nothing."""


EXPECTED = (DataError, ModelError, SourceError, checkpoints.CheckpointError, TrainingError)


def main(argv: list[str] | None = None) -> int:
    """Train; returns the exit status. What the user can put right is one line on stderr, not a traceback."""
    options = arguments.parse(argv)
    ranks = Ranks.join()
    try:
        train(options, ranks)
    except EXPECTED as error:
        if ranks.first:
            print(f"train: {error}", file=sys.stderr)
        return 2
    finally:
        ranks.leave()
    return 0


def train(options: argparse.Namespace, ranks: Ranks) -> None:
    """The whole training, run by every rank; the first one alone writes and prints."""
    # ---- data and model ------------------------------------------------------------------------------------
    torch.manual_seed(options.seed)  # the fresh head is the same on every rank
    torch.set_float32_matmul_precision("high")  # TF32 on GPUs that have it
    bf16 = options.bf16 and ranks.has_bf16()
    if options.bf16 and not bf16:
        ranks.print(f"this {ranks.device.type} has no bfloat16: training in float32")
    data = load(options.data)
    model, tokenizer = load_base(options.base_model, data.labels)
    model.to(ranks.device)
    longest = longest_input(model, tokenizer, options.max_length)
    ids = {name: encode(tokenizer, split.texts, max_length=longest) for name, split in data.splits.items()}
    lengths = [len(row) for row in ids["train"]]
    labels = data.splits["train"].labels

    # ---- optimizer, and what one step is -------------------------------------------------------------------
    optimizer = recipe.make_optimizer(
        model,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        fused=options.fused_adamw,
    )
    if options.torch_compile:
        model.compile(dynamic=True)  # before it is wrapped: Dynamo stumbles over the wrapper
    network = model
    if ranks.count > 1:
        gpu = [ranks.device.index] if ranks.device.type == "cuda" else None
        network = DistributedDataParallel(model, device_ids=gpu)
    global_batch = options.batch_size * ranks.count
    epoch_steps = -(-len(lengths) // global_batch)
    total_steps = epoch_steps * options.epochs
    warmup_steps = int(total_steps * options.warmup_ratio)

    # ---- resume --------------------------------------------------------------------------------------------
    identity: dict[str, Any] = {name: getattr(options, name) for name in recipe.IDENTITY}
    identity |= {"bf16": bf16, "data": data.sha256(), "global_batch": global_batch}
    step, history, loss_sum = 0, [], torch.zeros((), device=ranks.device)
    best: dict[str, torch.Tensor] = {}  # weights of the best epoch so far, in the CPU's memory
    saved = checkpoints.load_latest(options.checkpoints, identity=identity)
    if saved is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, history, best = saved["step"], saved["history"], saved["best"]
        loss_sum = saved["loss_sum"].to(ranks.device)
        ranks.print(f"resuming after step {step} of {total_steps}")

    def save_checkpoint() -> None:
        if ranks.first:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "identity": identity}
            state |= {"step": step, "history": history, "best": best, "loss_sum": loss_sum}
            checkpoints.save(options.checkpoints, step, state)
        ranks.wait()

    def score_split(name: str) -> dict[str, Any]:
        return score(
            model, ids[name], data.splits[name].labels, label_count=len(data.labels),
            pad_id=tokenizer.pad_token_id, longest=longest, batch=options.batch_size * 4, bf16=bf16,
            ranks=ranks,
        )  # fmt: skip

    # ---- the loop ------------------------------------------------------------------------------------------
    ranks.print(
        f"{len(lengths)} sentences ({', '.join(data.labels)}), {total_steps} steps of {global_batch}, "
        f"{ranks.count} x {ranks.device.type}"
    )
    started, first_step = time.monotonic(), step
    for epoch in range(step // epoch_steps, options.epochs):
        epoch_started = time.monotonic()
        model.train()
        plan = plan_epoch(lengths, batch=global_batch, seed=options.seed, epoch=epoch)
        for whole in plan[step - epoch * epoch_steps :]:
            # Dropout depends on seed, step and rank alone: no generator's state is needed to resume.
            torch.manual_seed((options.seed * 1_000_003 + step) * 4096 + ranks.rank)
            for group in optimizer.param_groups:
                group["lr"] = options.learning_rate * recipe.schedule(step, warmup=warmup_steps, total=total_steps)
            mine = whole[ranks.rank :: ranks.count]
            share = len(mine) / len(whole) * ranks.count  # so that the ranks' mean gradient is the whole batch's
            mine = mine or whole[:1]  # a rank left without a sentence takes part with share 0
            inputs = pad([ids["train"][i] for i in mine], pad_id=tokenizer.pad_token_id, longest=longest)
            wanted = torch.tensor([labels[i] for i in mine], device=ranks.device)
            with torch.autocast(ranks.device.type, dtype=torch.bfloat16, enabled=bf16):
                logits = network(**{name: value.to(ranks.device) for name, value in inputs.items()}).logits
            loss = torch.nn.functional.cross_entropy(logits.float(), wanted) * share
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            mean_loss = ranks.sum(loss.detach()) / ranks.count
            loss_sum = loss_sum + mean_loss
            if step % options.log_steps == 0 or step == total_steps:
                pace = (step - first_step) / (time.monotonic() - started)  # steps per second
                ranks.print(
                    f"epoch {epoch + 1}/{options.epochs} step {step}/{total_steps} "
                    f"loss {mean_loss.item():.4f} "
                    f"{pace * global_batch:.0f} samples/s {clock((total_steps - step) / pace)} left"
                )
            if options.checkpoint_steps and step % options.checkpoint_steps == 0 and step % epoch_steps:
                save_checkpoint()

        # ---- after each epoch: score, keep the best, save --------------------------------------------------
        if not math.isfinite(loss_sum.item()):
            raise TrainingError(f"the loss is not a number in epoch {epoch + 1}: try a lower --learning-rate")
        found = score_split("val")
        if found["macro_recall"] > max((entry["macro_recall"] for entry in history), default=-1.0):
            best = {name: value.to("cpu", copy=True) for name, value in model.state_dict().items()}
        history.append(
            {"epoch": epoch + 1, "train_loss": round(loss_sum.item() / epoch_steps, 6), **found}
            | {"seconds": round(time.monotonic() - epoch_started, 2)}
        )
        loss_sum = torch.zeros((), device=ranks.device)
        ranks.print(
            f"epoch {epoch + 1}/{options.epochs} scored: accuracy {found['accuracy']:.4f} "
            f"macro recall {found['macro_recall']:.4f} macro F1 {found['macro_f1']:.4f}"
        )
        save_checkpoint()

    # ---- the best epoch is the result ----------------------------------------------------------------------
    model.load_state_dict(best)
    held_out = {"split": data.held_out, **score_split(data.held_out)}
    if ranks.first:
        write_output(
            options.output, model=model, tokenizer=tokenizer, data=data, history=history, held_out=held_out,
            arguments=vars(options), ranks=ranks,
        )  # fmt: skip
    ranks.wait()
    ranks.print(f"held out ({data.held_out}): accuracy {held_out['accuracy']:.4f}, written to {options.output}")


if __name__ == "__main__":
    sys.exit(main())
