"""The project's own CDK CLI, and what held a stack when it could not be deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from operations.account import Account
from operations.failure import CommandFailed
from settings import REPO_ROOT

FILTERS = {
    "AWS::EC2::SecurityGroup": "group-id",
    "AWS::EC2::Subnet": "subnet-id",
    "AWS::EC2::VPC": "vpc-id",
}
"""What network interfaces can hold, with the filter of DescribeNetworkInterfaces that finds them."""


def destroy(deployment: str) -> int:
    """`cdk destroy --all`, with its output as it comes; returns its exit status.

    :param deployment: as it was given: a name, or a path to a settings file
    :raises CommandFailed: the CDK CLI is not installed
    """
    line = command("destroy", "--all", "--force", "--progress", "events", deployment=deployment)
    return subprocess.run(line, cwd=REPO_ROOT, env=os.environ | {"PATH": search_path()}, check=False).returncode


def command(*words: str, deployment: str) -> list[str]:
    """A command line of the project's own CDK CLI for a deployment; it must run in the checkout, with `search_path`.

    :raises CommandFailed: the CDK CLI is not installed
    """
    program = shutil.which("cdk", path=search_path())
    if program is None:
        raise CommandFailed(f"the CDK CLI is not installed: run `npm ci` in {REPO_ROOT}.")
    given = str(Path(deployment).resolve()) if deployment.endswith(".toml") else deployment
    return [program, *words, "--no-notices", "-c", f"deployment={given}"]


def search_path() -> str:
    """PATH with the checkout's CDK CLI, and the Python that runs this, before everything else."""
    own = [str(REPO_ROOT / "node_modules" / ".bin"), str(Path(sys.executable).parent)]
    return os.pathsep.join([*own, os.environ.get("PATH", "")])


def holders(account: Account) -> list[str]:
    """A line for each network interface that keeps a security group, subnet or VPC from being deleted, and whose."""
    found: list[str] = []
    for stack in account.stacks():
        if stack["StackStatus"] != "DELETE_FAILED":
            continue
        for resource in account.resources(stack["StackName"]):
            name = FILTERS.get(resource["ResourceType"])
            if name is None or resource["ResourceStatus"] != "DELETE_FAILED":
                continue
            held = [{"Name": name, "Values": [resource["PhysicalResourceId"]]}]
            pages = account.client("ec2").get_paginator("describe_network_interfaces").paginate(Filters=held)
            found += [
                f"{resource['PhysicalResourceId']} is held by {interface['NetworkInterfaceId']}: "
                f"{_holder(account, interface)}"
                for page in pages
                for interface in page["NetworkInterfaces"]
            ]
    return found


def _holder(account: Account, interface: dict[str, Any]) -> str:
    """Whose interface it is, from its description; for an endpoint the service, as `…guardduty-data`."""
    said = str(interface.get("Description") or interface.get("RequesterId") or interface.get("InterfaceType") or "?")
    endpoint = next((word for word in said.split() if word.startswith("vpce-")), None)
    if endpoint is None:
        return said
    endpoints = account.client("ec2").describe_vpc_endpoints(
        Filters=[{"Name": "vpc-endpoint-id", "Values": [endpoint]}]
    )["VpcEndpoints"]
    service = endpoints[0]["ServiceName"] if endpoints else "a service unknown"
    owner = "GuardDuty's own" if "guardduty" in service else "not of this deployment"
    return f"{endpoint} for {service}, {owner}: aws ec2 delete-vpc-endpoints --vpc-endpoint-ids {endpoint}"
