"""What is deployed, from the stacks themselves."""

from __future__ import annotations

import boto3
from rich.table import Table

from settings import names


def status_table(session: boto3.Session, deployment: str) -> Table | None:
    """A row a stack of `deployment`: state and outputs. None when there is no stack."""
    prefix = names.stack_name(deployment, "")
    pages = session.client("cloudformation").get_paginator("describe_stacks").paginate()
    stacks = [stack for page in pages for stack in page["Stacks"] if stack["StackName"].startswith(prefix)]
    if not stacks:
        return None
    table = Table("stack", "state", title=f"Deployment {deployment}")
    table.add_column("outputs", overflow="fold")
    for stack in sorted(stacks, key=lambda item: item["StackName"]):
        outputs = [
            f"{output['OutputKey']} = {output['OutputValue']}"
            for output in stack.get("Outputs", [])
            if not output["OutputKey"].startswith("ExportsOutput")
        ]
        table.add_row(stack["StackName"], stack["StackStatus"], "\n".join(outputs))
    return table
