"""The command line of the training job."""

from __future__ import annotations

from collections.abc import Mapping

from settings.hardware import instance
from settings.models import Training

MODULE = "-m model_code.sentiment.train"


def training_command(settings: Training, folders: Mapping[str, str]) -> str:
    """One process a GPU when there are several; DistributedDataParallel, because DataParallel skips torch.compile.

    :param folders: {`base_model` or `data`: folder relative to the work folder}
    """
    several = instance(settings.instance_type).gpus > 1
    launcher = f"torchrun --standalone --nproc-per-node=gpu {MODULE}" if several else f"python {MODULE}"
    options: dict[str, object] = {
        "base-model": folders["base_model"],
        "data": folders["data"],
        "output": "output",
        "checkpoints": "checkpoints",
        "epochs": settings.epochs,
        "learning-rate": settings.learning_rate,
        "batch-size": settings.batch_size,
        "max-length": settings.max_length,
        "weight-decay": settings.weight_decay,
        "warmup-ratio": settings.warmup_ratio,
        "seed": settings.seed,
    }
    switches = {
        "torch-compile": settings.torch_compile,
        "bf16": settings.bf16,
        "fused-adamw": settings.fused_adamw,
    }
    return " ".join(
        [
            launcher,
            *(f"--{name} {value}" for name, value in options.items()),
            *(f"--{'' if on else 'no-'}{name}" for name, on in switches.items()),
        ]
    )
