"""Custom::CloseDefaultGroup: takes all rules out of a VPC's default security group.

Every VPC has that group, it cannot be removed, and it lets its members talk to each other and to the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3

from torchlift.handlers._shared.cfn_response import answering


def handle(event: Mapping[str, Any], context: Any) -> None:
    """Answer one request of CloudFormation. Deletion does nothing: the group goes with its VPC."""
    with answering(event, task="close the default group"):
        if event["RequestType"] != "Delete":
            close(event["ResourceProperties"]["SecurityGroupId"])


def close(group_id: str) -> None:
    """Revoke every rule of the group; a group without rules is left alone."""
    ec2: Any = boto3.client("ec2")
    group = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
    if group["IpPermissions"]:
        ec2.revoke_security_group_ingress(GroupId=group_id, IpPermissions=group["IpPermissions"])
    if group["IpPermissionsEgress"]:
        ec2.revoke_security_group_egress(GroupId=group_id, IpPermissions=group["IpPermissionsEgress"])
