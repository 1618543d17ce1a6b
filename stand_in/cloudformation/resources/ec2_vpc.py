"""EC2: networks, subnets, endpoints, flow logs."""

from __future__ import annotations

from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, ResourceFailed, register
from stand_in.cloudformation.resources.ec2_base import Ec2Resource
from stand_in.cloudformation.shapes import own_tags, pick, unless_gone


@register
class Vpc(Ec2Resource):
    """A network."""

    type_name = "AWS::EC2::VPC"
    properties = frozenset({"CidrBlock", "EnableDnsHostnames", "EnableDnsSupport", "InstanceTenancy", "Tags"})
    replace_on = frozenset({"CidrBlock", "InstanceTenancy"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ec2 = ctx.client("ec2")
        vpc = ec2.create_vpc(**pick(props, "CidrBlock", "InstanceTenancy"))["Vpc"]["VpcId"]
        ctx.made(vpc)
        self._resolve_names(ctx, vpc, props)
        self.set_tags(ctx, vpc, props)
        return Created(physical_id=vpc, attributes=self.attributes(ctx, vpc, props))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        self._resolve_names(ctx, physical_id, {"EnableDnsSupport": True, "EnableDnsHostnames": False} | new)
        self.change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes=self.attributes(ctx, physical_id, new))

    @staticmethod
    def _resolve_names(ctx: Context, vpc: str, props: Properties) -> None:
        for name in ("EnableDnsSupport", "EnableDnsHostnames"):
            if name in props:
                ctx.client("ec2").modify_vpc_attribute(VpcId=vpc, **{name: {"Value": props[name]}})

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
        ctx.made(subnet)
        if "MapPublicIpOnLaunch" in props:
            ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": props["MapPublicIpOnLaunch"]})
        self.set_tags(ctx, subnet, props)
        return Created(physical_id=subnet, attributes=self.attributes(ctx, subnet, props))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        public = {"Value": new.get("MapPublicIpOnLaunch", False)}
        ctx.client("ec2").modify_subnet_attribute(SubnetId=physical_id, MapPublicIpOnLaunch=public)
        self.change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes=self.attributes(ctx, physical_id, new))

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
class VpcEndpoint(Ec2Resource):
    """A private way to one AWS service."""

    type_name = "AWS::EC2::VPCEndpoint"
    id_attribute = "Id"
    properties = frozenset(
        {
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
        arguments = {key: value for key, value in props.items() if key != "Tags"}
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
    id_attribute = "Id"
    properties = frozenset(
        {
            "DeliverLogsPermissionArn",
            "LogDestinationType",
            "LogGroupName",
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
                "LogDestinationType",
                "LogGroupName",
                "ResourceId",
                "TrafficType",
            )
            | {"Tags": own_tags(held.get("Tags", ()))}
        )
