"""`torchlift teardown`: destroy a deployment, then look what is left."""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.table import Table

from operations.account import Account
from operations.asking import answer, confirmed
from operations.failure import CommandFailed
from operations.teardown import cdk
from operations.teardown.audit import Leftover, audit, retained
from settings import Settings

WAIT_SECONDS, WAITS = 30, 30
"""SageMaker's network interfaces go by themselves, minutes after the endpoint: up to 15 of them are waited."""


def teardown(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Destroy a deployment and say what is left of it.

    Runs `cdk destroy --all`, waits and tries once more when network interfaces still hold a security group or subnet,
    then looks for leftovers by tag and by name. Exit status 0: nothing is left but what is meant to stay.

    examples:
      torchlift teardown dev --dry-run
      torchlift teardown prod --unprotect

    IAM: what `cdk destroy` needs (sts:AssumeRole on the bootstrap roles), cloudformation:DescribeStacks,
    cloudformation:ListStackResources, cloudformation:GetTemplate, tag:GetResources, logs:DescribeLogGroups,
    ssm:GetParametersByPath, kms:DescribeKey, s3:ListBucket, ec2:DescribeInstances, ec2:DescribeNatGateways,
    ec2:DescribeVpcEndpoints, ec2:DescribeVolumes, ec2:DescribeNetworkInterfaces; with --unprotect
    cloudformation:UpdateTerminationProtection
    """
    account = Account(settings)
    stacks = account.stacks()
    kept = retained(account, stacks)
    _line(console, f"Stacks: {', '.join(stack['StackName'] for stack in stacks) or 'none'}")
    for kind, name in kept:
        _line(console, f"Stays: {kind} {name}")
    if arguments.dry_run:
        return 0
    _agree(
        arguments, account, console, [item["StackName"] for item in stacks if item.get("EnableTerminationProtection")]
    )
    status = _destroy(arguments.deployment, account, console) if stacks else 0
    left = audit(account)
    _report(console, left)
    return 0 if status == 0 and all(item.expected for item in left) else 1


def _agree(arguments: argparse.Namespace, account: Account, console: Console, protected: list[str]) -> None:
    """Ask; take the termination protection off where that was asked for."""
    name = account.deployment
    if protected and not arguments.unprotect:
        raise CommandFailed(f"{', '.join(protected)} are protected: --unprotect takes the protection off.")
    if protected:
        if answer(console, "Type the deployment's name to unprotect and destroy it: ") != name:
            raise CommandFailed(f"that is not '{name}': nothing was touched.")
        for stack in protected:
            account.client("cloudformation").update_termination_protection(
                StackName=stack, EnableTerminationProtection=False
            )
    elif not arguments.yes and not confirmed(console, f"Destroy deployment {name} in {account.region}?"):
        raise CommandFailed("nothing was touched.")


def _destroy(deployment: str, account: Account, console: Console) -> int:
    """Destroy; once more when network interfaces held it up. Returns the CDK CLI's last exit status."""
    status = cdk.destroy(deployment)
    held = cdk.holders(account) if status else []
    if not held:
        return status
    for line in held:
        _line(console, line)
    _line(console, "Waiting for the network interfaces to go, then trying once more ...")
    for _ in range(WAITS):
        if not cdk.holders(account):
            break
        time.sleep(WAIT_SECONDS)
    return cdk.destroy(deployment)


def _report(console: Console, left: list[Leftover]) -> None:
    if not left:
        _line(console, "Nothing is left.")
        return
    table = Table("what is left", title="Left", show_lines=True)
    table.add_column("why, and how to remove it", overflow="fold")
    table.columns[0].overflow = "fold"
    for item in left:
        table.add_row(item.what, f"{item.reason}\n{item.remove}")
    console.print(table)


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
