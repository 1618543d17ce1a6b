"""`torchlift preflight`: would a deploy get through in this account?"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from botocore.exceptions import ClientError
from rich.console import Console
from rich.table import Table

from operations.account import Account
from operations.failure import is_denied, sentence
from operations.preflight import access, checks, quotas
from operations.preflight.row import Row
from settings import Settings

CHECKS: tuple[Callable[[Account], Iterator[Row]], ...] = (
    checks.identity,
    checks.bootstrap,
    quotas.job_vcpus,
    quotas.endpoint_instances,
    quotas.builders,
    quotas.network,
    checks.offering,
    checks.reservation,
    checks.machine_image,
    checks.base_images,
    access.certificate,
    access.secret,
    checks.people,
)
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red"}


def preflight(_: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Check an account before the first deploy, without changing anything.

    Credentials, CDK bootstrap, service quotas, capacity, images. A check that may not look says so, and the
    rest goes on. Exit status 0: nothing failed; warnings do not count.

    example: torchlift preflight dev

    IAM: sts:GetCallerIdentity, ssm:GetParameter, servicequotas:GetServiceQuota,
    servicequotas:GetAWSDefaultServiceQuota, servicequotas:ListServiceQuotas,
    servicequotas:ListAWSDefaultServiceQuotas, cloudformation:DescribeStacks, ec2:DescribeVpcs,
    ec2:DescribeAddresses, ec2:DescribeNatGateways, ec2:DescribeInstanceTypeOfferings,
    ec2:DescribeCapacityReservations, ec2:DescribeImages, ecr:DescribeImages, acm:DescribeCertificate,
    secretsmanager:DescribeSecret
    """
    rows = look(Account(settings))
    table = Table(title=f"Preflight of {settings.deployment.name}", show_lines=True)
    for heading in ("check", "", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(row.name, f"[{COLOURS[row.level]}]{row.level}[/]", row.found, row.todo)
    console.print(table)
    counts = {level: sum(row.level == level for row in rows) for level in COLOURS}
    console.print(", ".join(f"{count} {level}" for level, count in counts.items()), highlight=False)
    return 1 if counts["fail"] else 0


def look(account: Account) -> list[Row]:
    """The rows of every check. A service that refuses one of them costs that check only."""
    rows: list[Row] = []
    for check in CHECKS:
        try:
            rows += check(account)
        except ClientError as error:
            name = check.__name__.replace("_", " ")
            todo = "ask for the permission, or look it up by hand" if is_denied(error) else "try again"
            rows.append(Row(name=name, level="warn", found=sentence(error), todo=todo))
    return rows
