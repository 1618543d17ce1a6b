"""Network: private subnets, one a zone, and how they reach AWS; or a network of the user's, by ids."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Literal

from aws_cdk import Acknowledgment, Annotations, RemovalPolicy, Tags, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from torchlift.default_security_group import ClosedDefaultGroup
from torchlift.flow_log import FlowLog
from torchlift.network_endpoints import GatewayEndpoint, InterfaceEndpoints

SUBNET_BITS = 4
"""The VPC's range is cut into 16 parts: a private subnet for each zone from below, the public one at the top."""

ANYWHERE = "0.0.0.0/0"


class Network(Construct):
    """What instances and endpoints are placed in: :attr:`vpc` and :attr:`subnets`, in the order of the zones."""

    vpc: ec2.IVpc

    def __init__(self, scope: Construct, id: str, *, cidr: str, zones: Sequence[str]) -> None:
        """Use :class:`NewNetwork` or :class:`ExistingNetwork`."""
        super().__init__(scope, id)
        self.cidr = cidr
        self.zones = tuple(zones)
        self.subnets: list[ec2.ISubnet] = []

    def subnets_in(self, zones: Sequence[str]) -> list[ec2.ISubnet]:
        """The private subnets of some of the zones, in the order of the network's zones.

        :raises ValueError: a zone has no subnet here
        """
        missing = [zone for zone in zones if zone not in self.zones]
        if missing:
            raise ValueError(f"no subnet in {', '.join(missing)}, only in {', '.join(self.zones)}")
        return [subnet for zone, subnet in zip(self.zones, self.subnets, strict=True) if zone in zones]


class ExistingNetwork(Network):
    """A VPC that somebody else looks after; nothing in it is changed.

    Its private subnets must reach AWS (by NAT, or by the endpoints of
    :data:`torchlift.network_endpoints.INTERFACES` and S3's gateway).
    """

    def __init__(
        self, scope: Construct, id: str, *, vpc_id: str, cidr: str, zones: Sequence[str], subnet_ids: Sequence[str]
    ) -> None:
        """Import the VPC and its private subnets, one a zone, without looking anything up."""
        super().__init__(scope, id, cidr=cidr, zones=zones)
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=vpc_id, vpc_cidr_block=cidr, availability_zones=list(zones)
        )
        for zone, subnet_id in zip(zones, subnet_ids, strict=True):
            subnet = ec2.Subnet.from_subnet_attributes(
                self, f"Private{_letter(zone)}", subnet_id=subnet_id, availability_zone=zone
            )
            # Routes in somebody else's network are not ours to make, so we need no route tables.
            Annotations.of(subnet).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
            self.subnets.append(subnet)


class NewNetwork(Network):
    """A VPC of our own: no public address anywhere but on the NAT gateway, if there is one."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        egress: Literal["nat", "endpoints"],
        cidr: str,
        zones: Sequence[str],
        key: kms.IKey,
        log_retention: logs.RetentionDays,
        removal_policy: RemovalPolicy,
        more_services: Sequence[str] = (),
    ) -> None:
        """Declare VPC, subnets, routes, endpoints, flow log, and close the default security group.

        :param egress: `nat`: one NAT gateway, in the first zone; `endpoints`: no way out, interface endpoints instead
        :param more_services: with `endpoints`, further services that get an endpoint
        :param zones: zone names, literal: a look-up would need credentials at synth
        """
        super().__init__(scope, id, cidr=cidr, zones=zones)
        made = ec2.CfnVPC(self, "Vpc", cidr_block=cidr, enable_dns_hostnames=True, enable_dns_support=True)
        Tags.of(made).add("Name", made.node.path)
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self, "Attributes", vpc_id=made.ref, vpc_cidr_block=cidr, availability_zones=list(zones)
        )
        self._vpc_id = made.ref
        self._parts = list(ipaddress.ip_network(cidr).subnets(prefixlen_diff=SUBNET_BITS))
        tables = [self._build_private_subnet(zone, str(part)) for zone, part in zip(zones, self._parts, strict=False)]
        subnet_ids = [subnet.subnet_id for subnet in self.subnets]
        GatewayEndpoint(self, "Gateway", vpc_id=made.ref, route_table_ids=[table.ref for table in tables])
        if egress == "nat":
            self._build_nat(zones[0], tables)
        else:
            InterfaceEndpoints(
                self,
                "Interfaces",
                vpc=self.vpc,
                vpc_id=made.ref,
                cidr=cidr,
                subnet_ids=subnet_ids,
                more=more_services,
            )
        FlowLog(
            self,
            "FlowLog",
            vpc_id=made.ref,
            key=key,
            log_retention=log_retention,
            removal_policy=removal_policy,
        )
        ClosedDefaultGroup(
            self,
            "DefaultGroup",
            group_id=made.attr_default_security_group,
            key=key,
            log_retention=log_retention,
        )

    def _build_private_subnet(self, zone: str, cidr: str) -> ec2.CfnRouteTable:
        name = f"Private{_letter(zone)}"
        subnet, table = self._build_subnet(name, zone, cidr)
        self.subnets.append(
            ec2.Subnet.from_subnet_attributes(
                self,
                f"{name}Attributes",
                subnet_id=subnet.ref,
                availability_zone=zone,
                ipv4_cidr_block=cidr,
                route_table_id=table.ref,
            )
        )
        return table

    def _build_subnet(self, name: str, zone: str, cidr: str) -> tuple[ec2.CfnSubnet, ec2.CfnRouteTable]:
        subnet = ec2.CfnSubnet(
            self,
            name,
            vpc_id=self._vpc_id,
            cidr_block=cidr,
            availability_zone=zone,
            map_public_ip_on_launch=False,
        )
        Validations.of(subnet).acknowledge(
            Acknowledgment(
                id="CloudFormation-Validate::W3010",
                reason="Zones come from the settings: capacity is bought by zone, and a look-up needs credentials",
            )
        )
        table = ec2.CfnRouteTable(self, f"{name}Routes", vpc_id=self._vpc_id)
        ec2.CfnSubnetRouteTableAssociation(self, f"{name}Association", subnet_id=subnet.ref, route_table_id=table.ref)
        for item in (subnet, table):
            Tags.of(item).add("Name", item.node.path)
        return subnet, table

    def _build_nat(self, zone: str, tables: Sequence[ec2.CfnRouteTable]) -> None:
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=self._vpc_id, internet_gateway_id=gateway.ref
        )
        public, table = self._build_subnet("Public", zone, str(self._parts[-1]))
        out = ec2.CfnRoute(
            self,
            "PublicRoute",
            route_table_id=table.ref,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway.ref,
        )
        out.node.add_dependency(attachment)
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        address.node.add_dependency(attachment)
        nat = ec2.CfnNatGateway(self, "Nat", subnet_id=public.ref, allocation_id=address.attr_allocation_id)
        # Before its subnet can reach the internet a NAT gateway is of no use, and removing it later would fail.
        nat.node.add_dependency(out)
        for item in (gateway, address, nat):
            Tags.of(item).add("Name", item.node.path)
        for private in tables:
            ec2.CfnRoute(
                self,
                f"{private.node.id}ToNat",
                route_table_id=private.ref,
                destination_cidr_block=ANYWHERE,
                nat_gateway_id=nat.ref,
            )


def _letter(zone: str) -> str:
    return zone[-1].upper()
