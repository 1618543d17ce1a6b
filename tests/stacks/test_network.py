"""The network: nothing reachable from anywhere, and a way to AWS in either mode."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable

import pytest

from settings import REPO_ROOT
from tests.stacks.synthesis import DEPLOYMENTS, Synthesized
from torchlift.network_endpoints import INTERFACES


def services(assembly: Synthesized, kind: str) -> set[str]:
    return {
        item["Properties"]["ServiceName"].removeprefix("com.amazonaws.us-west-2.")
        for item in assembly.resources("AWS::EC2::VPCEndpoint").values()
        if item["Properties"]["VpcEndpointType"] == kind
    }


def test_egress_by_nat(dev: Synthesized) -> None:
    assert len(dev.resources("AWS::EC2::NatGateway")) == 1
    assert services(dev, "Gateway") == {"s3"}
    assert not services(dev, "Interface")
    routes = [item["Properties"] for item in dev.resources("AWS::EC2::Route").values()]
    assert sum("NatGatewayId" in item for item in routes) == 3
    assert sum("GatewayId" in item for item in routes) == 1


def test_egress_by_endpoints_has_no_way_out(prod: Synthesized) -> None:
    for kind in ("NatGateway", "InternetGateway", "EIP", "Route"):
        assert not prod.resources(f"AWS::EC2::{kind}")
    assert services(prod, "Interface") == set(INTERFACES)
    assert services(prod, "Gateway") == {"s3"}
    for endpoint in prod.resources("AWS::EC2::VPCEndpoint").values():
        properties = endpoint["Properties"]
        if properties["VpcEndpointType"] == "Interface":
            assert properties["PrivateDnsEnabled"] is True
            assert len(properties["SubnetIds"]) == 3


def test_the_gateway_has_no_policy_that_would_swallow_signals(deployment: Synthesized) -> None:
    """Wait-condition signals and image layers are objects in other accounts' buckets."""
    for endpoint in deployment.resources("AWS::EC2::VPCEndpoint").values():
        assert "PolicyDocument" not in endpoint["Properties"]


@pytest.mark.parametrize(
    "service",
    [
        "ecr.api",
        "ecr.dkr",
        "logs",
        "monitoring",
        "sts",
        "ssm",
        "ssmmessages",
        "ec2messages",
        "cloudformation",
        "kms",
        "sagemaker.api",
        "sagemaker.runtime",
        "autoscaling",
    ],
)
def test_what_instances_call_without_the_internet(service: str) -> None:
    assert service in INTERFACES


def test_no_ingress_from_outside_the_vpc(deployment: Synthesized) -> None:
    cidr = deployment.one("AWS::EC2::VPC")["CidrBlock"]
    for rule in deployment.resources("AWS::EC2::SecurityGroupIngress").values():
        # From the load balancer to its hosts.
        assert "SourceSecurityGroupId" in rule["Properties"] and rule["Properties"]["FromPort"] == 8080
    for group in deployment.resources("AWS::EC2::SecurityGroup").values():
        for rule in group["Properties"].get("SecurityGroupIngress", []):
            assert rule["CidrIp"] == cidr
            # 80: the load balancer of question answering, for which no certificate is given.
            assert (rule["FromPort"], rule["ToPort"]) in ((443, 443), (80, 80))


def test_no_public_addresses(deployment: Synthesized) -> None:
    for subnet in deployment.resources("AWS::EC2::Subnet").values():
        assert subnet["Properties"]["MapPublicIpOnLaunch"] is False


def test_subnets_fit_and_do_not_overlap(deployment: Synthesized) -> None:
    vpc = ipaddress.ip_network(deployment.one("AWS::EC2::VPC")["CidrBlock"])
    subnets = [
        ipaddress.ip_network(item["Properties"]["CidrBlock"])
        for item in deployment.resources("AWS::EC2::Subnet").values()
    ]
    for position, subnet in enumerate(subnets):
        assert isinstance(vpc, ipaddress.IPv4Network)
        assert isinstance(subnet, ipaddress.IPv4Network)
        assert subnet.subnet_of(vpc)
        assert not any(subnet.overlaps(other) for other in subnets[position + 1 :])


def test_six_zones(synthesize: Callable[..., Synthesized]) -> None:
    zones = [f"us-east-1{letter}" for letter in "abcdef"]
    made = synthesize("dev", {"deployment.region": "us-east-1", "network.zones": zones})
    found = [item["Properties"]["AvailabilityZone"] for item in made.resources("AWS::EC2::Subnet").values()]
    assert sorted(found) == sorted([*zones, zones[0]])  # and the NAT gateway's


def test_flow_log_and_closed_default_group(deployment: Synthesized) -> None:
    flow_log = deployment.one("AWS::EC2::FlowLog")
    assert flow_log["TrafficType"] == "ALL"
    closed = deployment.one("Custom::CloseDefaultGroup")
    assert closed["SecurityGroupId"]["Fn::GetAtt"][1] == "DefaultSecurityGroup"


def test_existing_vpc(synthesize: Callable[..., Synthesized]) -> None:
    subnets = [f"subnet-0123456789abcdef{number}" for number in range(3)]
    vpc = "vpc-0123456789abcdef0"
    section = {"vpc_id": vpc, "cidr": "10.0.0.0/16", "private_subnet_ids": subnets}
    made = synthesize("dev", {"network.existing_vpc": section})
    for kind in ("VPC", "Subnet", "NatGateway", "VPCEndpoint", "FlowLog", "RouteTable"):
        assert not made.resources(f"AWS::EC2::{kind}"), "nothing of somebody else's network is ours to make"
    for stack in ("Training", "MultiModel", "Inferentia"):
        assert made.one("AWS::AutoScaling::AutoScalingGroup", stack)["VPCZoneIdentifier"] == subnets
    for stack in ("Graviton", "MultiModel"):
        assert made.one("AWS::SageMaker::Model", stack)["VpcConfig"]["Subnets"] == subnets
    groups = made.resources("AWS::EC2::SecurityGroup").values()
    assert {item["Properties"]["VpcId"] for item in groups} == {vpc}
    some = synthesize("dev", {"network.existing_vpc": section, "training.zones": ["us-west-2c"]})
    assert some.one("AWS::AutoScaling::AutoScalingGroup", "Training")["VPCZoneIdentifier"] == [subnets[2]]


def test_ec2_takes_every_description(deployment: Synthesized) -> None:
    """Its character set has no apostrophe, for one."""
    groups = [item["Properties"] for item in deployment.resources("AWS::EC2::SecurityGroup").values()]
    rules = [
        rule for group in groups for side in ("Ingress", "Egress") for rule in group.get(f"SecurityGroup{side}", ())
    ]
    for kind in ("Ingress", "Egress"):
        rules += [item["Properties"] for item in deployment.resources(f"AWS::EC2::SecurityGroup{kind}").values()]
    texts = [group["GroupDescription"] for group in groups] + [rule.get("Description", "") for rule in rules]
    assert len(texts) >= 4
    for text in texts:
        # An intrinsic (the network's range) stands for characters that are allowed.
        plain = text if isinstance(text, str) else json.dumps(text["Fn::Join"][1]).replace('"', "")
        assert re.fullmatch(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}", plain), text


def test_deployments_may_be_peered(deployments: dict[str, Synthesized]) -> None:
    ranges = {deployments[name].one("AWS::EC2::VPC")["CidrBlock"] for name in DEPLOYMENTS}
    assert len(ranges) == len(DEPLOYMENTS)


def test_nothing_is_looked_up(deployment: Synthesized) -> None:
    assert "missing" not in deployment.manifest
    assert not (REPO_ROOT / "cdk.context.json").exists()
    assert "Fn::GetAZs" not in json.dumps(deployment.templates)
