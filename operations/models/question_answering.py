"""`torchlift models …` for question answering: which models the fleet's servers hold, and who gets the traffic."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from model_code.serving.model_list import Entry
from operations.account import Account
from operations.asking import confirmed
from operations.failure import CommandFailed
from operations.models.fleet import WORKLOAD, Fleet
from settings import Settings

__all__ = ["WORKLOAD", "add_model", "remove_model", "set_weights", "show_models"]
FOLLOWED = (
    "Every server looks at the list every 15 seconds, loads what is new beside what it serves, and then follows. "
    "GET /models of a core shows what it holds, and why it does not follow."
)


def show_models(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Show the models that the question-answering fleet should hold, and each one's share of the traffic.

    A request that names no model goes to one by weight; weight 0 is asked by name only.

    example: torchlift models show dev --json | jq -r '.[].name'

    IAM: ssm:GetParameter, s3:GetObject, kms:Decrypt
    """
    fleet = Fleet(Account(settings))
    entries, _ = fleet.read()
    if arguments.json:
        rows = [{"name": one.name, "source": one.source, "weight": one.weight} for one in entries]
        print(json.dumps(rows, indent=2))
        return 0
    console.print(_table(entries, title=f"Models of {settings.deployment.name}'s question answering"))
    return 0


def set_weights(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Give models of the question-answering fleet other shares of the traffic.

    Models that are not named keep their weight. Nothing changes when somebody else changed the list meanwhile.

    examples:
      torchlift models set dev model_0=9 next=1
      torchlift models set dev model_0=0 next=1

    IAM: as `torchlift models show`, and s3:PutObject, kms:GenerateDataKey
    """
    fleet = Fleet(Account(settings))
    entries, etag = fleet.read()
    weights = dict(_weight(text) for text in arguments.weights)
    known = [entry.name for entry in entries]
    for name in weights:
        if name not in known:
            raise CommandFailed(f"nothing was changed: there is no model '{name}'. There are: {', '.join(known)}.")
    changed = [replace(entry, weight=weights.get(entry.name, entry.weight)) for entry in entries]
    return _write(fleet, changed, etag, console)


def add_model(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Have every server of the fleet load one more compiled model."""
    fleet = Fleet(Account(settings))
    entries, etag = fleet.read()
    if any(entry.name == arguments.model for entry in entries):
        raise CommandFailed(f"nothing was changed: there is a model '{arguments.model}' already. Give another name.")
    trace = fleet.trace(fleet.source(arguments.traced))
    fleet.refuse_unfit(trace, beside=entries)
    sdk = f", Neuron SDK {trace.neuron_sdk}" if trace.neuron_sdk else ""
    _print_line(console, f"{trace.url}: {trace.model}, {trace.shapes} shapes, {trace.weights_mib:.0f} MiB{sdk}")
    if arguments.dry_run:
        _print_line(console, "Nothing was changed.")
        return 0
    added = Entry(name=arguments.model, source=trace.url, weight=0.0 if arguments.weight is None else arguments.weight)
    return _write(fleet, [*entries, added], etag, console)


def remove_model(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Have every server of the fleet let a model go, when its last request is answered."""
    fleet = Fleet(Account(settings))
    entries, etag = fleet.read()
    left = [entry for entry in entries if entry.name != arguments.model]
    if len(left) == len(entries):
        known = ", ".join(entry.name for entry in entries)
        raise CommandFailed(f"nothing was changed: there is no model '{arguments.model}'. There are: {known}.")
    if arguments.dry_run:
        _print_line(console, f"{arguments.model} would go. Nothing was changed.")
        return 0
    if not arguments.yes and not confirmed(console, f"Remove {arguments.model} from every server?"):
        raise CommandFailed("nothing was removed.")
    return _write(fleet, left, etag, console)


def _write(fleet: Fleet, entries: Sequence[Entry], etag: str, console: Console) -> int:
    fleet.write(entries, etag)
    console.print(_table(entries, title="Models from now on"))
    _print_line(console, FOLLOWED)
    return 0


def _weight(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise CommandFailed(f"{text!r}: expected NAME=WEIGHT, such as model_0=9.") from None


def _table(entries: Sequence[Entry], *, title: str) -> Table:
    table = Table(title=title)
    table.add_column("model", overflow="fold")
    table.add_column("weight", justify="right")
    table.add_column("share", justify="right")
    table.add_column("from", overflow="fold")
    total = sum(entry.weight for entry in entries)
    for entry in entries:
        share = f"{entry.weight / total:.1%}" if entry.weight else "by name"
        table.add_row(entry.name, f"{entry.weight:g}", share, entry.source)
    return table


def _print_line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
