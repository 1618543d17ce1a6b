"""`torchlift versions …`: what there is to serve, and how it gets from one deployment to another."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from operations.account import Account
from operations.asking import confirmed
from operations.failure import CommandFailed
from operations.versions import tables, transfer
from operations.versions.in_service import UNKNOWN, in_service, wanted
from operations.versions.store import Store, Version
from settings import Settings, load_settings


def list_versions(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Show every model version of a deployment, its scores, and which one serves.

    example: torchlift versions list dev --json | jq -r '.[0].version'

    IAM: cloudformation:DescribeStacks, s3:ListBucket, s3:GetObject, kms:Decrypt, ssm:GetParameter,
    sagemaker:DescribeEndpoint, sagemaker:DescribeEndpointConfig, sagemaker:DescribeModel
    """
    account = Account(settings)
    store = Store(account)
    serves, asked = in_service(account), wanted(settings, account)
    rows = [tables.describe(store, version, serves=serves, wanted=asked) for version in store.versions()]
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    if not rows:
        console.print(f"No version in s3://{store.bucket} yet: deploy, or `torchlift versions publish`.", markup=False)
        return 0
    console.print(tables.list_table(rows, deployment=account.deployment))
    _print_rollback(console, settings, arguments.deployment)
    return 0


def show_version(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Show one version: where it comes from, its metrics and its files.

    example: torchlift versions show dev 0123456789abcdef

    IAM: as `torchlift versions list`
    """
    account = Account(settings)
    store = Store(account)
    version = store.get(arguments.version)
    row = tables.describe(store, version, serves=in_service(account), wanted=wanted(settings, account))
    documents = {name: store.document(version, name) for name in ("metrics.json", "run.json")}
    if arguments.json:
        print(json.dumps(row | {"manifest": version.manifest} | documents, indent=2, ensure_ascii=False))
        return 0
    console.print(tables.show_table(row, version, documents))
    return 0


def publish_version(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Make a version of a local folder: config.json with id2label, tokenizer, model.safetensors.

    The folder is checked as packaging checks it, before anything is sent. Its version is a hash of its content: the
    same folder again is the same version. metrics.json, probe.json and run.json go along when they are there.

    example: torchlift versions publish dev ./my-model

    IAM: cloudformation:DescribeStacks, s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject,
    s3:AbortMultipartUpload, kms:Decrypt, kms:GenerateDataKey
    """
    store = Store(Account(settings))
    version, new = transfer.publish(store, Path(arguments.folder), console=console)
    _print_line(console, f"{version} is published: {store.uri(version)}" if new else f"{version} is there already.")
    _print_deploy(console, arguments.deployment, version)
    return 0


def promote_version(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Copy a version from one deployment to another, in the same account or another one.

    Every file is compared with the manifest's SHA-256 on the way. Nothing is served by this alone: the command ends
    with what to put into the settings.

    examples:
      torchlift versions promote dev prod 0123456789abcdef
      torchlift versions promote dev prod 0123456789abcdef --from-profile dev-account --to-profile prod-account

    IAM: source: cloudformation:DescribeStacks, s3:ListBucket, s3:GetObject, kms:Decrypt; target: as
    `torchlift versions publish`
    """
    target_settings = load_settings(arguments.to)
    source = Store(Account(settings, arguments.from_profile))
    target = Store(Account(target_settings, arguments.to_profile))
    if source.bucket == target.bucket:
        raise CommandFailed(f"{arguments.deployment} and {arguments.to} are the same deployment: nothing to copy.")
    version = source.get(arguments.version)
    new = transfer.promote(source, target, version, console=console)
    words = f"is copied to {target.uri(version.name)}" if new else f"is in {arguments.to} already"
    _print_line(console, f"{version.name} {words}.")
    _print_deploy(console, arguments.to, version.name)
    return 0


def delete_version(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Delete a version that neither serves nor is wanted by the settings.

    The bucket keeps the bytes as old object versions for 30 days.

    example: torchlift versions delete dev 0123456789abcdef

    IAM: as `torchlift versions list`, and s3:DeleteObject
    """
    account = Account(settings)
    store = Store(account)
    version = store.get(arguments.version)
    _refuse_in_use(account, version)
    if not arguments.yes and not confirmed(console, f"Delete {store.uri(version.name)} ({version.bytes:,} bytes)?"):
        raise CommandFailed("nothing was deleted.")
    store.delete(version.name)
    _print_line(console, f"{version.name} is deleted.")
    return 0


def _refuse_in_use(account: Account, version: Version) -> None:
    serves = in_service(account)
    if UNKNOWN in serves.values():
        raise CommandFailed(
            "the package in service does not say which version it holds (an older Torchlift made it): deploy once, "
            "which packages anew, then delete."
        )
    users = [f"variant {variant}" for variant, name in serves.items() if name == version.name]
    users += [who for who, name in wanted(account.settings, account).items() if name == version.name]
    if users:
        raise CommandFailed(f"{version.name} is in use ({', '.join(users)}): deploy another version first.")


def _print_rollback(console: Console, settings: Settings, deployment: str) -> None:
    """How to go back; nothing for a deployment that serves nothing."""
    if settings.sentiment is not None:
        file = deployment if deployment.endswith(".toml") else f"deployments/{deployment}.toml"
        _print_line(
            console,
            f'To serve another one, or go back: version = "<version>" under [sentiment] in {file}, then '
            f"cdk deploy -c deployment={deployment} --all",
        )


def _print_deploy(console: Console, deployment: str, version: str) -> None:
    file = deployment if deployment.endswith(".toml") else f"deployments/{deployment}.toml"
    _print_line(
        console,
        f"To serve it, put into {file}:\n\n"
        f'    [sentiment]\n    version = "{version}"\n\n'
        f"and run: cdk deploy -c deployment={deployment} --all\n"
        "The deploy packages this version and updates the endpoint beside the old one, which serves until the new one "
        "answers; it does not train for it. To go back: the earlier version in its place, and deploy.",
    )


def _print_line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
