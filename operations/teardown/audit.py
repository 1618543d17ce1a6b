"""What is left of a deployment: found by its tag, and by the names that it gives; with the reason and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import error_code
from settings import names

WORKLOADS = ("sentiment", "question-answering", "text-encoding")
RETAINED = ("s3", "kms", "ecr", "logs")
"""Services whose resources stay on purpose when the deployment is not ephemeral: data, its key, images, flow logs."""
GONE = ("terminated", "deleted", "shutting-down", "deleting")
RETAINING = ("Retain", "RetainExceptOnCreate")


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """One thing that is still there. `expected`: it is all right that it is; `remove`: the command that ends it."""

    what: str
    reason: str
    remove: str
    expected: bool


def retained(account: Account, stacks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(type, physical id) of what the deployed stacks' templates keep when they are deleted."""
    cloudformation = account.client("cloudformation")
    kept: list[tuple[str, str]] = []
    for stack in stacks:
        template = cloudformation.get_template(StackName=stack["StackName"], TemplateStage="Processed")["TemplateBody"]
        keeping = {
            name for name, resource in template["Resources"].items() if resource.get("DeletionPolicy") in RETAINING
        }
        kept += [
            (resource["ResourceType"], resource["PhysicalResourceId"])
            for resource in account.resources(stack["StackName"])
            # While a deploy is under way some have none yet.
            if resource["LogicalResourceId"] in keeping and resource.get("PhysicalResourceId")
        ]
    return sorted(kept)


def audit(account: Account) -> list[Leftover]:
    """Everything of the deployment that is still there, what should not be there first."""
    found = {_identity(arn): arn for arn in [*_tagged(account), *_named(account)]}
    left = [made for arn in found.values() if (made := _leftover(account, arn)) is not None]
    return sorted(left, key=lambda item: (item.expected, item.what))


def _identity(arn: str) -> str:
    return arn.removesuffix(":*")


def _tagged(account: Account) -> Iterator[str]:
    pages = account.client("resourcegroupstaggingapi").get_paginator("get_resources")
    wanted = [{"Key": names.TAG_DEPLOYMENT, "Values": [account.deployment]}]
    for page in pages.paginate(TagFilters=wanted):
        yield from (item["ResourceARN"] for item in page["ResourceTagMappingList"])


def _named(account: Account) -> Iterator[str]:
    """What carries the deployment's name, tagged or not: `dev` has none of those of `dev-2`."""
    prefixes = [f"/torchlift/{account.deployment}/"]
    prefixes += [names.log_group_of_endpoint(f"torchlift-{account.deployment}-{workload}-") for workload in WORKLOADS]
    logs = account.client("logs").get_paginator("describe_log_groups")
    for prefix in prefixes:
        for page in logs.paginate(logGroupNamePrefix=prefix):
            yield from (group["arn"] for group in page["logGroups"])
    parameters = account.client("ssm").get_paginator("get_parameters_by_path")
    for page in parameters.paginate(Path=f"/torchlift/{account.deployment}", Recursive=True):
        yield from (item["ARN"] for item in page["Parameters"])


def _leftover(account: Account, arn: str) -> Leftover | None:
    """What an ARN stands for; None when it is gone: the tagging service shows some things for an hour after."""
    _, _, service, region, _, rest = arn.split(":", 5)
    kind, slash, name = rest.partition("/")
    name = name if slash else rest
    if service == "kms":
        return _key(account, arn, name)
    if service == "ec2" and _state(account, kind, name) in GONE:
        return None
    if service == "cloudformation":
        name = rest.split("/")[1]
    if service == "logs":
        name = rest.removeprefix("log-group:").removesuffix(":*")
    if service == "ssm":
        name = f"/{name}"
    if service == "s3" and not _bucket_exists(account, name):
        return None
    stays = service in RETAINED and not account.settings.deployment.ephemeral
    return Leftover(
        what=_identity(arn),
        reason="retained on purpose: ephemeral = false" if stays else "left behind",
        remove=_command(service, kind, name, region or account.region),
        expected=stays,
    )


def _key(account: Account, arn: str, name: str) -> Leftover | None:
    try:
        key = account.client("kms").describe_key(KeyId=name)["KeyMetadata"]
    except ClientError as error:
        if error_code(error) != "NotFoundException":
            raise
        return None
    if key["KeyState"] == "PendingDeletion":
        when = key["DeletionDate"].date()
        return Leftover(
            what=arn, reason=f"pending deletion: AWS deletes it on {when}", remove="nothing to do", expected=True
        )
    stays = not account.settings.deployment.ephemeral
    return Leftover(
        what=arn,
        reason="retained on purpose: ephemeral = false; delete it last" if stays else "left behind",
        remove=f"aws kms schedule-key-deletion --pending-window-in-days 7 --key-id {name} --region {account.region}",
        expected=stays,
    )


def _state(account: Account, kind: str, name: str) -> str:
    """The state of an EC2 resource that outlives its end in listings; empty when it has none, `deleted` without it."""
    ec2 = account.client("ec2")
    try:
        if kind == "instance":
            found = ec2.describe_instances(InstanceIds=[name])["Reservations"]
            return str(found[0]["Instances"][0]["State"]["Name"]) if found else "deleted"
        if kind == "natgateway":
            return str(ec2.describe_nat_gateways(NatGatewayIds=[name])["NatGateways"][0]["State"])
        if kind == "vpc-endpoint":
            return str(ec2.describe_vpc_endpoints(VpcEndpointIds=[name])["VpcEndpoints"][0]["State"])
        if kind == "volume":
            return str(ec2.describe_volumes(VolumeIds=[name])["Volumes"][0]["State"])
    except IndexError:
        return "deleted"
    except ClientError as error:
        if "NotFound" not in error_code(error):
            raise
        return "deleted"
    return ""


def _bucket_exists(account: Account, name: str) -> bool:
    try:
        account.client("s3").head_bucket(Bucket=name)
    except ClientError as error:
        if error_code(error) in ("404", "NoSuchBucket"):
            return False
    return True


def _command(service: str, kind: str, name: str, region: str) -> str:
    """The command that removes a resource; for what has none here, where to look."""
    versions = (
        f"aws s3api list-object-versions --bucket {name} --max-items 1000 --output json "
        "--query '{Objects: [Versions, DeleteMarkers][].{Key: Key, VersionId: VersionId}}'"
    )
    commands = {
        "s3": f'aws s3api delete-objects --bucket {name} --delete "$({versions})" (until it is empty); '
        f"aws s3api delete-bucket --bucket {name}",
        "ecr": f"aws ecr delete-repository --force --repository-name {name}",
        "logs": f"aws logs delete-log-group --log-group-name {name}",
        "ssm": f"aws ssm delete-parameter --name {name}",
        "cloudformation": f"aws cloudformation delete-stack --stack-name {name}",
        "sagemaker": f"aws sagemaker delete-{kind} --{kind}-name {name}",
        "ec2/instance": f"aws ec2 terminate-instances --instance-ids {name}",
        "ec2/security-group": f"aws ec2 delete-security-group --group-id {name}",
        "ec2/subnet": f"aws ec2 delete-subnet --subnet-id {name}",
        "ec2/vpc": f"aws ec2 delete-vpc --vpc-id {name}",
        "ec2/volume": f"aws ec2 delete-volume --volume-id {name}",
        "ec2/network-interface": f"aws ec2 delete-network-interface --network-interface-id {name}",
    }
    found = commands.get(service) or commands.get(f"{service}/{kind}")
    return f"{found} --region {region}" if found else f"by hand, in the console of {service}"
