"""EC2: routes, and what they lead to."""

from __future__ import annotations

from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.resources.ec2_base import Ec2Resource
from stand_in.cloudformation.shapes import own_tags, pick, unless_gone


@register
class RouteTable(Ec2Resource):
    """A route table."""

    type_name = "AWS::EC2::RouteTable"
    id_attribute = "RouteTableId"
    properties = frozenset({"Tags", "VpcId"})
    replace_on = frozenset({"VpcId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        table = ctx.client("ec2").create_route_table(VpcId=props["VpcId"])["RouteTable"]["RouteTableId"]
        ctx.made(table)
        self.set_tags(ctx, table, props)
        return Created(physical_id=table, attributes={"RouteTableId": table})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_route_table(RouteTableId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        table = ctx.client("ec2").describe_route_tables(RouteTableIds=[physical_id])["RouteTables"][0]
        return {"VpcId": table["VpcId"], "Tags": own_tags(table["Tags"])}


@register
class Route(Resource):
    """One route; its id is table and destination."""

    type_name = "AWS::EC2::Route"
    properties = frozenset({"DestinationCidrBlock", "GatewayId", "NatGatewayId", "RouteTableId"})
    replace_on = frozenset({"DestinationCidrBlock", "RouteTableId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ctx.client("ec2").create_route(**props)
        return Created(physical_id=f"{props['RouteTableId']}|{props['DestinationCidrBlock']}")

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ctx.client("ec2").replace_route(**new)
        return Created(physical_id=physical_id)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        table, destination = physical_id.split("|")
        unless_gone(lambda: ctx.client("ec2").delete_route(RouteTableId=table, DestinationCidrBlock=destination))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        table, destination = physical_id.split("|")
        routes = ctx.client("ec2").describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
        route = next(item for item in routes if item.get("DestinationCidrBlock") == destination)
        return {"RouteTableId": table} | pick(route, "DestinationCidrBlock", "GatewayId", "NatGatewayId")


@register
class SubnetRouteTableAssociation(Resource):
    """Which table a subnet uses."""

    type_name = "AWS::EC2::SubnetRouteTableAssociation"
    properties = frozenset({"RouteTableId", "SubnetId"})
    replace_on = properties

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        made = ctx.client("ec2").associate_route_table(**props)["AssociationId"]
        return Created(physical_id=made, attributes={"Id": made})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").disassociate_route_table(AssociationId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        tables = ctx.client("ec2").describe_route_tables(
            Filters=[{"Name": "association.route-table-association-id", "Values": [physical_id]}]
        )["RouteTables"]
        held = next(item for item in tables[0]["Associations"] if item["RouteTableAssociationId"] == physical_id)
        return pick(held, "RouteTableId", "SubnetId")


@register
class InternetGateway(Ec2Resource):
    """A way out and in."""

    type_name = "AWS::EC2::InternetGateway"
    id_attribute = "InternetGatewayId"
    properties = frozenset({"Tags"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        made = ctx.client("ec2").create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self.set_tags(ctx, made, props)
        return Created(physical_id=made, attributes={"InternetGatewayId": made})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_internet_gateway(InternetGatewayId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_internet_gateways(InternetGatewayIds=[physical_id])["InternetGateways"][0]
        return {"Tags": own_tags(held["Tags"])}


@register
class VpcGatewayAttachment(Resource):
    """An internet gateway on a network."""

    type_name = "AWS::EC2::VPCGatewayAttachment"
    properties = frozenset({"InternetGatewayId", "VpcId"})
    replace_on = properties

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ctx.client("ec2").attach_internet_gateway(**props)
        return Created(physical_id=f"IGW|{props['VpcId']}")

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").detach_internet_gateway(**props), "Gateway.NotAttached")

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        gateway = props["InternetGatewayId"]
        held = ctx.client("ec2").describe_internet_gateways(InternetGatewayIds=[gateway])["InternetGateways"][0]
        return {"InternetGatewayId": gateway, "VpcId": held["Attachments"][0]["VpcId"]}


@register
class Eip(Ec2Resource):
    """An address."""

    type_name = "AWS::EC2::EIP"
    properties = frozenset({"Domain", "Tags"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        made = ctx.client("ec2").allocate_address(**pick(props, "Domain"))
        self.set_tags(ctx, made["AllocationId"], props)
        return Created(
            physical_id=made["PublicIp"],
            attributes={"AllocationId": made["AllocationId"], "PublicIp": made["PublicIp"]},
        )

    def tagged(self, ctx: Context, physical_id: str) -> str:
        return str(self._held(ctx, physical_id)[0]["AllocationId"])

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        return {"AllocationId": self.tagged(ctx, physical_id), "PublicIp": physical_id}

    @staticmethod
    def _held(ctx: Context, physical_id: str) -> list[dict[str, Any]]:
        filters = [{"Name": "public-ip", "Values": [physical_id]}]
        held: list[dict[str, Any]] = ctx.client("ec2").describe_addresses(Filters=filters)["Addresses"]
        return held

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        for address in self._held(ctx, physical_id):
            ctx.client("ec2").release_address(AllocationId=address["AllocationId"])

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_addresses(PublicIps=[physical_id])["Addresses"][0]
        return {"Domain": held["Domain"], "Tags": own_tags(held.get("Tags", ()))}


@register
class NatGateway(Ec2Resource):
    """A way out."""

    type_name = "AWS::EC2::NatGateway"
    id_attribute = "NatGatewayId"
    properties = frozenset({"AllocationId", "SubnetId", "Tags"})
    replace_on = frozenset({"AllocationId", "SubnetId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        made = ctx.client("ec2").create_nat_gateway(**pick(props, "AllocationId", "SubnetId"))["NatGateway"]
        self.set_tags(ctx, made["NatGatewayId"], props)
        return Created(physical_id=made["NatGatewayId"], attributes={"NatGatewayId": made["NatGatewayId"]})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_nat_gateway(NatGatewayId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_nat_gateways(NatGatewayIds=[physical_id])["NatGateways"][0]
        return {
            "SubnetId": held["SubnetId"],
            "AllocationId": held["NatGatewayAddresses"][0]["AllocationId"],
            "Tags": own_tags(held.get("Tags", ())),
        }
