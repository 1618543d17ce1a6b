"""The command line of the engine's job."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from settings.text_encoding_models import MODEL_PREFIX, TextEncoding
from settings.triton import triton_release

MODULE = "python3 -m model_code.text_encoding.build"
DEVICE = "TORCHLIFT_DEVICE"
"""Nothing on AWS sets it: a GPU it is. Only the stand-in does, to have the CPU's stand-in for an engine."""


def build_command(settings: TextEncoding, folders: Mapping[str, str]) -> str:
    """One run from the model's folder to the archives.

    :param folders: {`base_model` or `calibration_texts`: folder relative to the work folder}
    """
    options: dict[str, object] = {
        "model": folders["base_model"],
        "output": "output",
        "precision": settings.precision,
        "opt-batch": settings.opt_batch,
        "max-batch": settings.max_batch,
        "min-length": settings.min_length,
        "opt-length": settings.opt_length,
        "max-length": settings.max_length,
        "workspace-mib": settings.workspace_mib,
        "instances": settings.instance_count,
        "queue-delay-ms": f"{settings.max_queue_delay_ms:g}",
        "minimum-driver": triton_release(settings.triton_release).minimum_driver,
    }
    if "calibration_texts" in folders:
        options["texts"] = folders["calibration_texts"]
    if isinstance(settings.models, int):
        options |= {"prefix": MODEL_PREFIX, "models": settings.models}
    else:
        options["names"] = shlex.join(settings.models)
    if settings.preferred_batch_sizes:
        options["preferred"] = " ".join(map(str, settings.preferred_batch_sizes))
    return " ".join(
        [
            f'{MODULE} --device "${{{DEVICE}:-gpu}}"',
            *(f"--{name} {value}" for name, value in options.items()),
            *(["--sweep"] if settings.sweep else []),
        ]
    )
