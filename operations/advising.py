"""`torchlift advise`: how many models fit on which Inf2 instance."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from operations.failure import CommandFailed
from settings.inferentia import INF2_TYPES, Advice, advise


def compare(arguments: argparse.Namespace, _: object, console: Console) -> int:
    """Compare the Inf2 instances for question answering: what each model gets, and what fits.

    Every compiled shape has the model's weights in it, on the device and in the server's memory. Nothing is asked of
    AWS: vCPUs, memory and NeuronCores are the catalogue's, what a model needs is reckoned from its weights. Give the
    weights in the type that is compiled: half as much for bfloat16.

    examples:
      torchlift advise --models-per-core 2
      torchlift advise --models-per-core 4 --weights-mib 125 --shapes 6 --json

    IAM: none; nothing is asked of AWS
    """
    for option in ("models_per_core", "weights_mib", "shapes"):
        if getattr(arguments, option) <= 0:
            raise CommandFailed(f"--{option.replace('_', '-')} must be above 0.")
    found = [
        advise(name, arguments.models_per_core, weights_mib=arguments.weights_mib, shapes=arguments.shapes)
        for name in INF2_TYPES
    ]
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
        return 0
    models = "1 model" if arguments.models_per_core == 1 else f"{arguments.models_per_core} models"
    title = f"{models} a core, {arguments.weights_mib:g} MiB of weights, {arguments.shapes} shapes"
    table = Table("instance", title=title, show_lines=True)
    for heading in ("cores", "vCPU per\nmodel", "GiB per\nmodel"):
        table.add_column(heading, justify="right")
    table.add_column("verdict", overflow="fold")
    for one in found:
        table.add_row(
            one.instance_type,
            str(one.cores),
            f"{one.vcpus_per_model:.3g}",
            f"{one.host_mib_per_model / 1024:.3g}",
            verdict(one),
        )
    console.print(table)
    return 0


def verdict(advice: Advice) -> str:
    """Whether it fits, in one or more sentences."""
    most = f"At most {advice.most_models} on a core." if advice.most_models else "Not one fits."
    if advice.refused:
        return " ".join([*advice.refused, most])
    room = "" if advice.room_to_change else " No room to load a new model before the old one goes."
    return f"Fits. {most}{room}"
