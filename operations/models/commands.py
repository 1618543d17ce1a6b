"""`torchlift models …`: what a multi-model endpoint can serve. Adding or removing one is an upload, not a deploy."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from model_code.archive import content_sha256
from operations.account import Account
from operations.asking import confirmed
from operations.failure import CommandFailed
from operations.models import loaded, question_answering
from operations.models.archives import checked
from operations.models.build import describe
from operations.models.store import Model, Store
from operations.progress import moving
from settings import Settings


def list_models(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Show the models of the text-encoding endpoint, and how many of them are loaded.

    What an archive holds is known when this command or the deployment's own build published it. Models that were added
    to an earlier build are not served any more: it names those.

    example: torchlift models list dev --json | jq -r '.[].name'

    IAM: ssm:GetParameter, s3:ListBucket, s3:GetObject, kms:Decrypt, cloudwatch:GetMetricData
    """
    account = Account(settings)
    store = Store(account)
    models = store.models()
    if arguments.json:
        print(json.dumps([_row(model) for model in models], indent=2, ensure_ascii=False))
        return 0
    if models:
        console.print(_table(models, deployment=account.deployment))
    else:
        _print_line(console, f"No model in s3://{store.bucket}/{store.prefix} yet: `torchlift models add`.")
    for line in loaded.lines(account):
        _print_line(console, line)
    for prefix, left in store.left_behind().items():
        _print_line(
            console,
            f"Not served any more: {', '.join(left)}, added to an earlier build, in s3://{store.bucket}/{prefix}. "
            "Build them for the engine that serves now, and add them again.",
        )
    return 0


def add_model(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Add a model to the text-encoding endpoint, or to the question-answering fleet, without a deploy.

    Checked before anything is sent: one folder in the archive; config.pbtxt by Triton's own message type; the plan's
    TensorRT version and GPU against those of the engine that serves; a name that no instance knows with other content.
    A name is never used again: SageMaker loads no archive anew. The archive appears whole or not at all.

    examples:
      torchlift models add dev bert-5 --archive bert-5.tar.gz
      torchlift models add dev bert-5 --repository ./bert --dry-run
      torchlift models add dev next --traced 0123456789abcdef --weight 1

    To the fleet (--traced) goes a model that a deploy compiled before: every server loads it beside what it serves, and
    gives it requests by weight (default 0: by name only). It must be whole, compiled for the fleet's cores by no later
    Neuron SDK than the fleet's, and fit.

    IAM: ssm:GetParameter, s3:ListBucket, s3:ListBucketVersions, s3:GetObject, s3:GetObjectVersion, s3:PutObject,
    s3:DeleteObject, s3:AbortMultipartUpload, kms:Decrypt, kms:GenerateDataKey
    """
    if arguments.traced is not None:
        return question_answering.add_model(arguments, settings, console)
    if arguments.weight is not None:
        raise CommandFailed("--weight goes with --traced: a multi-model endpoint is asked by name only.")
    store = Store(Account(settings))
    name = arguments.model
    source = {"archive": arguments.archive, "folder": arguments.repository}
    with checked(name, **source, own=store.build.engine()) as (archive, engine):
        size = archive.stat().st_size
        sha256 = content_sha256(archive)
        store.refuse_taken(name, sha256=sha256)
        target = f"s3://{store.bucket}/{store.key(name)}"
        words = " ".join(f"{key} {value}," for key, value in describe(engine).items()).rstrip(",")
        _print_line(console, f"{name}: {size:,} bytes, {words}")
        if arguments.dry_run:
            _print_line(console, f"It would become {target}. Nothing was uploaded.")
            return 0
        with moving(console, f"Uploading {name}", size) as moved:
            store.add(name, archive, engine, sha256=sha256, moved=moved)
    _print_line(
        console,
        f"{target} is there. The first request for it loads it, which takes longer:\n"
        f'  torchlift encode {arguments.deployment} {name} "A text."',
    )
    return 0


def remove_model(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Remove a model from the text-encoding endpoint, or with --workload from the question-answering fleet.

    SageMaker has no call to unload one: an instance that has it loaded, or on its disk, goes on answering for it until
    it needs the room or is replaced. Let clients stop asking for it first. The bucket keeps the archive as an old
    object version for 30 days; the name is not free for other content.

    A fleet's server lets a model go when its last request is answered.

    examples:
      torchlift models remove dev bert-5
      torchlift models remove dev model_1 --workload question-answering

    IAM: as `torchlift models list`, and s3:DeleteObject
    """
    if arguments.workload == question_answering.WORKLOAD:
        return question_answering.remove_model(arguments, settings, console)
    store = Store(Account(settings))
    name = arguments.model
    store.about(name)
    encoding = settings.text_encoding
    if encoding is not None and name == encoding.model_names[0]:
        raise CommandFailed(f"'{name}' stays: it is the model that a deploy asks whether the endpoint answers right.")
    target = f"s3://{store.bucket}/{store.key(name)}"
    if arguments.dry_run:
        _print_line(console, f"{target} would go. Nothing was removed.")
        return 0
    if not arguments.yes and not confirmed(console, f"Remove {target}?"):
        raise CommandFailed("nothing was removed.")
    store.remove(name)
    _print_line(
        console,
        f"{target} is removed. Instances that hold {name} go on answering for it until they need the room or are "
        "replaced; the others refuse it.",
    )
    return 0


def _row(model: Model) -> dict[str, Any]:
    about = {key.replace("-", "_"): value for key, value in model.about.items()}
    return {"name": model.name, "bytes": model.bytes, "modified": model.when.isoformat(timespec="seconds")} | about


def _table(models: list[Model], *, deployment: str) -> Table:
    """A row a model; narrow enough for 80 columns."""
    table = Table(title=f"Models of {deployment}")
    table.add_column("model", overflow="fold")
    table.add_column("MB", justify="right")
    table.add_column("modified")
    table.add_column("engine", overflow="fold")
    table.add_column("batch x length")
    for model in models:
        about = model.about
        engine = f"{about['precision']}, TensorRT {about['tensorrt']}, {about['gpu']}" if about else "not written down"
        table.add_row(
            model.name,
            f"{model.bytes / 1e6:.1f}",
            f"{model.when:%Y-%m-%d %H:%M}",
            engine,
            about.get("shapes", "").replace(" ", "\n"),
        )
    return table


def _print_line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
