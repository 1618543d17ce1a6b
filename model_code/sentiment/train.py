"""Fine-tune a pretrained encoder to tell sentiment; reads from top to bottom.

One device:     python -m model_code.sentiment.train --base-model M --data D --output O --checkpoints C
Every GPU:      torchrun --standalone --nproc-per-node=gpu -m model_code.sentiment.train ...
Two CPU ranks:  torchrun --standalone --nproc-per-node=2 -m model_code.sentiment.train ...

Writes config.json (with the data's labels), model.safetensors, the tokenizer, probe.json, run.json, two pictures and
metrics.json to --output. Started again with the same --checkpoints it goes on where it stopped, and ends with the same
weights as a run that was never stopped; SIGTERM makes it save and stop.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from model_code.pretrained import ModelError
from model_code.sentiment import arguments, checkpoints, recipe
from model_code.sentiment.batches import encode, pad, plan_epoch
from model_code.sentiment.data import DataError, load
from model_code.sentiment.failures import STOPPED, Stopped, StopRequest, explain
from model_code.sentiment.models import load_base, longest_input
from model_code.sentiment.progress import Progress
from model_code.sentiment.ranks import Ranks
from model_code.sentiment.report import thin_out, write_output
from model_code.sentiment.run_record import run_record
from model_code.sentiment.scoring import score
from model_code.sources import SourceError


class TrainingError(ValueError):
    """A training that came to nothing."""


EXPECTED = (DataError, ModelError, SourceError, checkpoints.CheckpointError, TrainingError)


def main(argv: list[str] | None = None) -> int:
    """Train; returns the exit status. What the user can put right is one line on stderr, not a traceback."""
    options = arguments.parse(argv)
    with StopRequest() as stop:
        ranks = Ranks.join()
        try:
            train(options, ranks, stop)
        except Stopped as stopped:
            ranks.print(str(stopped))
            return STOPPED
        except (*EXPECTED, OSError, RuntimeError, MemoryError) as error:
            sentence = str(error) if isinstance(error, EXPECTED) else explain(error, options)
            if sentence is None:
                raise
            ranks.complain(f"train: {sentence}", ending=lambda: stop.asked)
            return 2
        finally:
            ranks.leave()
    return 0


def train(options: argparse.Namespace, ranks: Ranks, stop: StopRequest) -> None:
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
    identity["checkpoint"] = 2  # the form of a checkpoint
    step, history, resumes, seconds = 0, [], [], 0.0
    losses = torch.zeros(total_steps, device=ranks.device)  # of every step; read seldom, for reading waits for the GPU
    best: dict[str, torch.Tensor] = {}  # weights of the best epoch so far, in the CPU's memory
    saved = checkpoints.load_latest(options.checkpoints, identity=identity)
    if saved is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, history, best, seconds = saved["step"], saved["history"], saved["best"], saved["seconds"]
        losses.copy_(saved["losses"])
        resumes = [*saved["resumes"], {"after_step": step, "at": _now()}]
        ranks.print(f"resuming after step {step} of {total_steps}")

    progress = Progress(
        ranks=ranks, epochs=options.epochs, total_steps=total_steps, every_s=options.log_seconds, seconds=seconds
    )

    def check_losses() -> None:
        """Stop at the first loss that is none, and never save what comes after it."""
        bad = (~losses[:step].isfinite()).nonzero()
        if len(bad):
            first = int(bad[0])
            raise TrainingError(
                f"the loss is not finite ({losses[first].item()}) at step {first + 1} of {total_steps}: "
                f"lower learning_rate ({options.learning_rate} now)"
            )

    def save_checkpoint() -> None:
        check_losses()
        if ranks.first:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "identity": identity}
            state |= {"step": step, "history": history, "best": best, "losses": losses}
            state |= {"seconds": progress.seconds, "resumes": resumes}
            checkpoints.save(options.checkpoints, step, state)

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
    for epoch in range(step // epoch_steps, options.epochs):
        epoch_started = time.monotonic()
        model.train()
        progress.start()
        plan = plan_epoch(lengths, batch=global_batch, seed=options.seed, epoch=epoch)
        for whole in plan[step - epoch * epoch_steps :]:
            if stop.asked and ranks.first:  # the others wait in their next step until the launcher ends them
                save_checkpoint()
                raise Stopped(f"asked to stop: saved after step {step} of {total_steps}")
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
            losses[step - 1] = ranks.sum(loss.detach()) / ranks.count
            progress.add(len(whole))
            ends = step % epoch_steps == 0
            if ends or progress.due():
                check_losses()
                progress.report(
                    epoch=epoch + 1, step=step, loss=losses[step - 1].item(),
                    learning_rate=optimizer.param_groups[0]["lr"], pause=ends,
                )  # fmt: skip
            if options.checkpoint_steps and step % options.checkpoint_steps == 0 and not ends:
                save_checkpoint()
                ranks.wait()

        # ---- after each epoch: score, keep the best, save --------------------------------------------------
        found = score_split("val")
        if found["macro_recall"] > max((entry["macro_recall"] for entry in history), default=-1.0):
            best = {name: value.to("cpu", copy=True) for name, value in model.state_dict().items()}
        history.append(
            {"epoch": epoch + 1, "train_loss": round(losses[step - epoch_steps : step].mean().item(), 6), **found}
            | {"seconds": round(time.monotonic() - epoch_started, 2)}
        )
        ranks.print(
            f"epoch {epoch + 1}/{options.epochs}  validation: loss {found['loss']:.3f}  "
            f"accuracy {found['accuracy']:.4f}  macro recall {found['macro_recall']:.4f}  "
            f"macro F1 {found['macro_f1']:.4f}"
        )
        progress.metrics({"ValidationMacroRecall": found["macro_recall"]})
        save_checkpoint()
        ranks.wait()

    # ---- the best epoch is the result ----------------------------------------------------------------------
    model.load_state_dict(best)
    held_out = {"split": data.held_out, **score_split(data.held_out)}
    if ranks.first:
        outcome = {
            "finished": _now(),
            "seconds": round(progress.seconds, 1),
            "samples_per_second": round(len(lengths) * options.epochs / max(progress.seconds, 1e-9), 1),
            "resumes": resumes,
            "steps": total_steps,
            "best_epoch": max(history, key=lambda entry: float(entry["macro_recall"]))["epoch"],
            "epochs": history,
            "loss_curve": thin_out(losses.tolist()),
            "held_out": held_out,
        }
        record = run_record(options=options, data=data, ranks=ranks, outcome=outcome)
        write_output(options.output, model=model, tokenizer=tokenizer, data=data, record=record)
    ranks.wait()
    ranks.print(f"held out ({data.held_out}): accuracy {held_out['accuracy']:.4f}, written to {options.output}")


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


if __name__ == "__main__":
    sys.exit(main())
