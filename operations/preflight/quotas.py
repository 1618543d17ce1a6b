"""Service quotas: what the account may have against what the deployment needs.

Codes: EC2 and VPC quotas keep theirs (Service Quotas console). SageMaker and CodeBuild have one a type, found by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import error_code
from operations.preflight.machines import machines
from operations.preflight.row import Row
from settings.hardware import instance

CONSOLE = "request it in the Service Quotas console"
VCPU = {
    ("p", "on-demand"): ("L-417A185B", "Running On-Demand P instances"),
    ("g", "on-demand"): ("L-DB2E81BA", "Running On-Demand G and VT instances"),
    ("p", "spot"): ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    ("p5", "spot"): ("L-C4BD4855", "All P5 Spot Instance Requests"),
    ("g", "spot"): ("L-3819A6DF", "All G and VT Spot Instance Requests"),
    ("i", "on-demand"): ("L-1945791B", "Running On-Demand Inf instances"),
    ("i", "spot"): ("L-B5D1601B", "All Inf Spot Instance Requests"),
}
VPCS, ELASTIC_IPS, NAT_GATEWAYS = "L-F678F1CE", "L-0263D0A3", "L-FE5A380F"
BUILDERS = ("Linux/Large", "ARM/Small", "ARM/Medium")
"""The environments that our builds take, each one at a time."""
UPDATES = 2
"""An endpoint update is blue/green: the new fleet runs beside the old one."""


def job_vcpus(account: Account) -> Iterator[Row]:
    """vCPU for each job's instance and the largest fleet; the box of mode interactive would come after its job."""
    for machine in machines(account.settings):
        if machine.purchase == "capacity-block":
            continue
        family = machine.instance_type[0]
        spot_p5 = machine.purchase == "spot" and machine.instance_type.startswith("p5")
        code, name = VCPU["p5" if spot_p5 else family, machine.purchase]
        needed = machine.instances * instance(machine.instance_type).vcpus
        yield _row(f"{name} ({machine.section})", _value(account, "ec2", code), needed, unit="vCPU")


def endpoint_instances(account: Account) -> Iterator[Row]:
    """Instances of each type that an endpoint has: twice the most in service."""
    needed: Counter[str] = Counter()
    sentiment, encoding = account.settings.sentiment, account.settings.text_encoding
    if sentiment is not None:
        needed[sentiment.endpoint.instance_type] += UPDATES * sentiment.endpoint.max_instances
        for one in sentiment.endpoint.challengers:
            needed[sentiment.endpoint.challenger_types[one.name]] += UPDATES * one.max_instances
    if encoding is not None:
        needed[encoding.endpoint.instance_type] += UPDATES * encoding.endpoint.max_instances
    for kind, instances in needed.items():
        name = f"{kind} for endpoint usage"
        yield _row(name, _by_name(account, "sagemaker", name), instances, unit="instances")


def builders(account: Account) -> Iterator[Row]:
    """Concurrent builds of each kind of builder."""
    for kind in BUILDERS:
        name = f"Concurrently running builds for {kind} environment"
        yield _row(f"CodeBuild {kind}", _by_name(account, "codebuild", name), 1, unit="builds")


def network(account: Account) -> Iterator[Row]:
    """Room for one more VPC, Elastic IP and NAT gateway, unless they are there already."""
    settings, ec2 = account.settings.network, account.client("ec2")
    if settings.existing_vpc is not None or account.stacks():
        return
    vpcs = _count(ec2, "describe_vpcs", "Vpcs")
    yield _row("VPCs per Region", _value(account, "vpc", VPCS), vpcs + 1, unit="VPCs")
    if settings.egress == "nat":
        addresses = len(ec2.describe_addresses()["Addresses"])
        yield _row("Elastic IPs", _value(account, "ec2", ELASTIC_IPS), addresses + 1, unit="addresses")
        gateways = _count(ec2, "describe_nat_gateways", "NatGateways")
        # The quota is a zone's; all gateways of the region in one zone is the worst case.
        allowed = _value(account, "vpc", NAT_GATEWAYS)
        yield _row("NAT gateways per zone", allowed, gateways + 1, unit="gateways", hard=False)


def _row(name: str, value: float | None, needed: int, *, unit: str, hard: bool = True) -> Row:
    if value is None:
        todo = f"look it up; needed: {needed} {unit}"
        return Row(name=name, level="warn", found="no such quota is listed", todo=todo)
    found = f"{value:g} of {needed} {unit} needed"
    if value >= needed:
        return Row(name=name, level="pass", found=found)
    return Row(name=name, level="fail" if hard else "warn", found=found, todo=f"{CONSOLE}: {name}, {needed} or more")


def _count(client: Any, operation: str, key: str) -> int:
    return sum(len(page[key]) for page in client.get_paginator(operation).paginate())


def _value(account: Account, service: str, code: str) -> float | None:
    quotas = account.client("service-quotas")
    # A quota that was never raised has no applied value, only AWS's default.
    for operation in (quotas.get_service_quota, quotas.get_aws_default_service_quota):
        try:
            return float(operation(ServiceCode=service, QuotaCode=code)["Quota"]["Value"])
        except ClientError as error:
            if error_code(error) != "NoSuchResourceException":
                raise
    return None


def _by_name(account: Account, service: str, name: str) -> float | None:
    quotas = account.client("service-quotas")
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        for page in quotas.get_paginator(operation).paginate(ServiceCode=service):
            for quota in page["Quotas"]:
                if quota["QuotaName"] == name:
                    return float(quota["Value"])
    return None
