"""EC2: networks, routes, gateways, endpoints, flow logs."""

from __future__ import annotations

from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, changed, register
from stand_in.cloudformation.shapes import document, own_tags, pick, unless_gone


class Ec2Resource(Resource):
    """Tags are CreateTags on the resource's id; nothing else changes in place unless a subclass says how."""

    def set_tags(self, ctx: Context, resource_id: str, props: Properties) -> None:
        """Put the tags of `props` on the resource."""
        if props.get("Tags"):
            ctx.client("ec2").create_tags(Resources=[resource_id], Tags=props["Tags"])

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        """Tags only."""
        if changed(old, new) - {"Tags"}:
            raise ResourceFailed(f"{self.type_name} cannot change {sorted(changed(old, new))} in place")
        gone = {tag["Key"] for tag in old.get("Tags", ())} - {tag["Key"] for tag in new.get("Tags", ())}
        if gone:
            ctx.client("ec2").delete_tags(Resources=[physical_id], Tags=[{"Key": key} for key in gone])
        self.set_tags(ctx, physical_id, new)
        return Created(physical_id=physical_id, attributes=self.attributes(ctx, physical_id, new))

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        """What GetAtt gives."""
        return {}


@register
class Vpc(Ec2Resource):
    """A network."""

    type_name = "AWS::EC2::VPC"
    properties = frozenset({"CidrBlock", "EnableDnsHostnames", "EnableDnsSupport", "InstanceTenancy", "Tags"})
    replace_on = frozenset({"CidrBlock", "InstanceTenancy"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ec2 = ctx.client("ec2")
        vpc = ec2.create_vpc(**pick(props, "CidrBlock", "InstanceTenancy"))["Vpc"]["VpcId"]
        for name in ("EnableDnsSupport", "EnableDnsHostnames"):
            if name in props:
                ec2.modify_vpc_attribute(VpcId=vpc, **{name: {"Value": props[name]}})
        self.set_tags(ctx, vpc, props)
        return Created(physical_id=vpc, attributes=self.attributes(ctx, vpc, props))

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        groups = ctx.client("ec2").describe_security_groups(
            Filters=[{"Name": "vpc-id", "Values": [physical_id]}, {"Name": "group-name", "Values": ["default"]}]
        )["SecurityGroups"]
        return {
            "VpcId": physical_id,
            "CidrBlock": props["CidrBlock"],
            "DefaultSecurityGroup": groups[0]["GroupId"],
        }

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_vpc(VpcId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        ec2 = ctx.client("ec2")
        vpc = ec2.describe_vpcs(VpcIds=[physical_id])["Vpcs"][0]
        found = {
            "CidrBlock": vpc["CidrBlock"],
            "InstanceTenancy": vpc["InstanceTenancy"],
            "Tags": own_tags(vpc["Tags"]),
        }
        for name in ("enableDnsSupport", "enableDnsHostnames"):
            key = name[0].upper() + name[1:]
            found[key] = ec2.describe_vpc_attribute(VpcId=physical_id, Attribute=name)[key]["Value"]
        return found


@register
class Subnet(Ec2Resource):
    """A subnet in one zone."""

    type_name = "AWS::EC2::Subnet"
    properties = frozenset({"AvailabilityZone", "CidrBlock", "MapPublicIpOnLaunch", "Tags", "VpcId"})
    replace_on = frozenset({"AvailabilityZone", "CidrBlock", "VpcId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ec2 = ctx.client("ec2")
        subnet = ec2.create_subnet(**pick(props, "AvailabilityZone", "CidrBlock", "VpcId"))["Subnet"]["SubnetId"]
        if "MapPublicIpOnLaunch" in props:
            ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": props["MapPublicIpOnLaunch"]})
        self.set_tags(ctx, subnet, props)
        return Created(physical_id=subnet, attributes=self.attributes(ctx, subnet, props))

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        return {"SubnetId": physical_id, **pick(props, "AvailabilityZone", "CidrBlock", "VpcId")}

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_subnet(SubnetId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        subnet = ctx.client("ec2").describe_subnets(SubnetIds=[physical_id])["Subnets"][0]
        return pick(subnet, "AvailabilityZone", "CidrBlock", "MapPublicIpOnLaunch", "VpcId") | {
            "Tags": own_tags(subnet["Tags"])
        }


@register
class RouteTable(Ec2Resource):
    """A route table."""

    type_name = "AWS::EC2::RouteTable"
    properties = frozenset({"Tags", "VpcId"})
    replace_on = frozenset({"VpcId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        table = ctx.client("ec2").create_route_table(VpcId=props["VpcId"])["RouteTable"]["RouteTableId"]
        self.set_tags(ctx, table, props)
        return Created(physical_id=table, attributes={"RouteTableId": table})

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        return {"RouteTableId": physical_id}

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

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        held = ctx.client("ec2").describe_addresses(Filters=[{"Name": "public-ip", "Values": [physical_id]}])[
            "Addresses"
        ]
        for address in held:
            ctx.client("ec2").release_address(AllocationId=address["AllocationId"])

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_addresses(PublicIps=[physical_id])["Addresses"][0]
        return {"Domain": held["Domain"], "Tags": own_tags(held.get("Tags", ()))}


@register
class NatGateway(Ec2Resource):
    """A way out."""

    type_name = "AWS::EC2::NatGateway"
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


@register
class VpcEndpoint(Ec2Resource):
    """A private way to one AWS service."""

    type_name = "AWS::EC2::VPCEndpoint"
    properties = frozenset(
        {
            "PolicyDocument",
            "PrivateDnsEnabled",
            "RouteTableIds",
            "SecurityGroupIds",
            "ServiceName",
            "SubnetIds",
            "Tags",
            "VpcEndpointType",
            "VpcId",
        }
    )
    replace_on = frozenset({"ServiceName", "VpcEndpointType", "VpcId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        arguments = {key: value for key, value in props.items() if key not in ("Tags", "PolicyDocument")}
        if "PolicyDocument" in props:
            arguments["PolicyDocument"] = document(props["PolicyDocument"])
        made = ctx.client("ec2").create_vpc_endpoint(**arguments)["VpcEndpoint"]["VpcEndpointId"]
        self.set_tags(ctx, made, props)
        return Created(physical_id=made, attributes={"Id": made})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[physical_id]))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_vpc_endpoints(VpcEndpointIds=[physical_id])["VpcEndpoints"][0]
        return pick(
            held, "PrivateDnsEnabled", "RouteTableIds", "ServiceName", "SubnetIds", "VpcEndpointType", "VpcId"
        ) | {
            "SecurityGroupIds": [group["GroupId"] for group in held.get("Groups", ())],
            "Tags": own_tags(held.get("Tags", ())),
        }


@register
class FlowLog(Ec2Resource):
    """What goes through a network, written down."""

    type_name = "AWS::EC2::FlowLog"
    properties = frozenset(
        {
            "DeliverLogsPermissionArn",
            "LogDestination",
            "LogDestinationType",
            "LogGroupName",
            "MaxAggregationInterval",
            "ResourceId",
            "ResourceType",
            "Tags",
            "TrafficType",
        }
    )
    replace_on = properties - {"Tags"}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        arguments = {key: value for key, value in props.items() if key not in ("Tags", "ResourceId")}
        answer = ctx.client("ec2").create_flow_logs(ResourceIds=[props["ResourceId"]], **arguments)
        if answer.get("Unsuccessful"):
            raise ResourceFailed(answer["Unsuccessful"][0]["Error"]["Message"])
        made = answer["FlowLogIds"][0]
        self.set_tags(ctx, made, props)
        return Created(physical_id=made, attributes={"Id": made})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_flow_logs(FlowLogIds=[physical_id]))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_flow_logs(FlowLogIds=[physical_id])["FlowLogs"][0]
        kinds = {"vpc": "VPC", "subnet": "Subnet", "eni": "NetworkInterface"}
        return (
            {"ResourceType": kinds[held["ResourceId"].partition("-")[0]]}
            | pick(
                held,
                "DeliverLogsPermissionArn",
                "LogDestination",
                "LogDestinationType",
                "LogGroupName",
                "MaxAggregationInterval",
                "ResourceId",
                "TrafficType",
            )
            | {"Tags": own_tags(held.get("Tags", ()))}
        )
