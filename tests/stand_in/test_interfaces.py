"""Networks stay while something has interfaces in them; those of an endpoint outlive it."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from tests.stand_in.conftest import Stacks, refused
from tests.stand_in.endpoints import served
from tests.stand_in.functions import function, upload
from tests.stand_in.samples import att, ref
from torchlift.handler_function import handler_files


def network() -> dict[str, Any]:
    return {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.8.0.0/16"}},
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"CidrBlock": "10.8.0.0/20", "VpcId": ref("Vpc")}},
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "for a test", "VpcId": ref("Vpc")},
        },
    }


def drained(stacks: Stacks, group: str) -> dict[str, Any]:
    """Our handler as a custom resource, which SageMaker's role outlives."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, file in handler_files("drain_interfaces").items():
            archive.writestr(path, file.read_bytes())
    bucket = upload(stacks, "")
    stacks.aws.client("s3").put_object(Bucket=bucket, Key="code.zip", Body=packed.getvalue())
    made = function(bucket, Handler="torchlift.handlers.drain_interfaces.handler.handle", Timeout=100)
    looks = {"Effect": "Allow", "Action": "ec2:DescribeNetworkInterfaces", "Resource": "*"}
    policy = {"PolicyName": "looks", "PolicyDocument": {"Version": "2012-10-17", "Statement": [looks]}}
    made["Role"]["Properties"] = {**made["Role"]["Properties"], "Policies": [policy]}
    return {
        **made,
        "Drained": {
            "Type": "Custom::DrainInterfaces", "DependsOn": ["Role", "Logs"],
            "Properties": {"ServiceToken": att("Function"), "SecurityGroupId": group},
        },
    }  # fmt: skip


@pytest.mark.parametrize("drain", [True, False], ids=["with drain", "without"])
def test_networks_stay_while_endpoints_have_interfaces(stacks: Stacks, drain: bool) -> None:
    """And longer: without the drain the stack below comes too early, and the role is gone too early."""
    outputs = {name: {"Value": ref(name)} for name in ("Subnet", "Group")}
    stacks.create("network", network(), Outputs=outputs)
    ids, ec2 = stacks.outputs("network"), stacks.aws.client("ec2")
    place = {"VpcConfig": {"SecurityGroupIds": [ids["Group"]], "Subnets": [ids["Subnet"]]}}
    resources = served(model=place)
    if drain:
        resources |= drained(stacks, ids["Group"])
        resources["Model"]["DependsOn"] = "Drained"
    assert stacks.create("s", resources) == "CREATE_COMPLETE"
    assert stacks.delete("network") == "DELETE_FAILED"
    assert "has a dependent object" in stacks.reason("network", "Group")
    assert "has dependencies" in stacks.reason("network", "Subnet")
    assert stacks.delete("s") == "DELETE_COMPLETE"
    wanted = [{"Name": "group-id", "Values": [ids["Group"]]}]
    left = [one["NetworkInterfaceId"] for one in ec2.describe_network_interfaces(Filters=wanted)["NetworkInterfaces"]]
    assert len(left) == (0 if drain else 1)
    assert stacks.delete("network") == ("DELETE_COMPLETE" if drain else "DELETE_FAILED")
    for interface in left:
        ec2.delete_network_interface(NetworkInterfaceId=interface)


def test_a_group_of_an_interface_stays(stacks: Stacks) -> None:
    stacks.create("network", network(), Outputs={name: {"Value": ref(name)} for name in ("Subnet", "Group")})
    ids, ec2 = stacks.outputs("network"), stacks.aws.client("ec2")
    eni = ec2.create_network_interface(SubnetId=ids["Subnet"], Groups=[ids["Group"]])["NetworkInterface"]
    assert "dependent object" in refused(lambda: ec2.delete_security_group(GroupId=ids["Group"]))
    ec2.delete_network_interface(NetworkInterfaceId=eni["NetworkInterfaceId"])
