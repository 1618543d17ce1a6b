"""run.json: where a model comes from and how its training went, for whoever finds it in a bucket years later."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from model_code.sentiment.data import Data
from model_code.sentiment.ranks import Ranks

# What the job's environment says, which is not known to the training itself: name in run.json → variable.
JOB = {
    "name": "TORCHLIFT_JOB",
    "hash": "TORCHLIFT_HASH",
    "deployment": "TORCHLIFT_DEPLOYMENT",
    "image": "TORCHLIFT_IMAGE",
    "code": "TORCHLIFT_SOURCE",
    "instance_type": "TORCHLIFT_INSTANCE_TYPE",
    "result": "TORCHLIFT_RESULT",
}
# Options that say where files lie on the machine.
PATHS = ("base_model", "data", "output", "checkpoints")


def run_record(*, options: argparse.Namespace, data: Data, ranks: Ranks, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The document. Nothing in it goes into a hash: it is written, never read back.

    :param outcome: what the training found: times, losses, scores
    """
    gpu = ranks.device.type == "cuda"
    return {
        "schema": 1,
        # Empty outside a deployment.
        "job": {name: os.environ.get(variable, "") for name, variable in JOB.items()},
        "base_model": {"source": _source("TORCHLIFT_BASE_MODEL", options.base_model)},
        "data": {
            "source": _source("TORCHLIFT_DATA", options.data),
            "labels": data.labels,
            "sha256": data.sha256(),
            "splits": {name: {"rows": len(split), "sha256": data.sha256(name)} for name, split in data.splits.items()},
        },
        "hyperparameters": {name: value for name, value in vars(options).items() if name not in PATHS},
        "hardware": {
            "device": ranks.device.type,
            "ranks": ranks.count,
            "gpu": torch.cuda.get_device_name(ranks.device) if gpu else None,
            "machine": platform.machine(),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "cuda": torch.version.cuda if gpu else None,
        },
        **outcome,
    }


def _source(variable: str, option: str) -> str:
    """With its revision, as the settings name it; on a machine of one's own, what the command line says."""
    return os.environ.get(variable) or (option if "://" in option else Path(option).name)
