"""`torchlift status`: what is deployed, serving, ringing and running."""

from __future__ import annotations

import argparse
from typing import Any

from botocore.exceptions import ClientError
from rich.console import Console
from rich.table import Table

from operations import fleets, running
from operations.account import Account
from operations.failure import CommandFailed, is_denied, sentence
from settings import Settings


def show(_: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Show the stacks, the endpoints and the fleet, alarms that ring and jobs that run.

    example: torchlift status dev

    IAM: cloudformation:DescribeStacks, cloudformation:ListStackResources, ssm:GetParameter,
    sagemaker:DescribeEndpoint, cloudwatch:DescribeAlarms, codebuild:BatchGetProjects,
    codebuild:ListBuildsForProject, codebuild:BatchGetBuilds, autoscaling:DescribeAutoScalingGroups,
    elasticloadbalancing:DescribeTargetHealth, logs:DescribeLogStreams, logs:GetLogEvents; without the later ones the
    rest is shown
    """
    account = Account(settings)
    stacks = account.stacks()
    if not stacks:
        raise CommandFailed(f"no stack of deployment '{account.deployment}' exists in {account.region}.")
    console.print(stack_table(stacks, account.deployment))
    resources = [item for stack in stacks for item in account.resources(stack["StackName"])]
    for part in (
        running.endpoints(account),
        fleets.fleet(account, resources),
        running.alarms(account, resources),
        running.jobs(account, resources),
    ):
        try:
            for line in part:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
        except ClientError as error:
            if not is_denied(error):
                raise
            console.print(sentence(error), markup=False, highlight=False, soft_wrap=True)
    return 0


def stack_table(stacks: list[dict[str, Any]], deployment: str) -> Table:
    """A row a stack: state, and what it puts out for people."""
    table = Table("stack", "state", title=f"Deployment {deployment}")
    table.add_column("outputs", overflow="fold")
    for stack in stacks:
        outputs = [
            f"{output['OutputKey']} = {output['OutputValue']}"
            for output in stack.get("Outputs", [])
            if not output["OutputKey"].startswith("ExportsOutput")
        ]
        table.add_row(stack["StackName"], stack["StackStatus"], "\n".join(outputs))
    return table
