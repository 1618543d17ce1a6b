"""Application load balancers: the balancer, its listeners, the target groups."""

from __future__ import annotations

from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import own_tags, pick, tag_changes, unless_gone

NAME_CHARACTERS = 32


def _name(ctx: Context, logical_id: str) -> str:
    """Names of load balancers and target groups are short: CloudFormation cuts the stack's, too."""
    return ctx.generate_name(logical_id)[-NAME_CHARACTERS:].strip("-")


def _retag(client: Any, arn: str, old: Properties, new: Properties) -> None:
    gone, tags = tag_changes(old, new)
    if gone:
        client.remove_tags(ResourceArns=[arn], TagKeys=gone)
    if tags:
        client.add_tags(ResourceArns=[arn], Tags=tags)


def _tags(client: Any, arn: str) -> list[dict[str, str]]:
    return own_tags(client.describe_tags(ResourceArns=[arn])["TagDescriptions"][0]["Tags"])


def _asked(held: list[dict[str, str]], props: Properties, name: str) -> list[dict[str, str]]:
    """Of all attributes those that the template sets, in its order."""
    known = {one["Key"]: one["Value"] for one in held}
    return [{"Key": one["Key"], "Value": known[one["Key"]]} for one in props.get(name, ()) if one["Key"] in known]


@register
class LoadBalancer(Resource):
    """An Application Load Balancer."""

    type_name = "AWS::ElasticLoadBalancingV2::LoadBalancer"
    properties = frozenset(
        {"IpAddressType", "LoadBalancerAttributes", "Name", "Scheme", "SecurityGroups", "Subnets", "Tags", "Type"}
    )
    replace_on = frozenset({"Name", "Scheme", "Type"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        client = ctx.client("elbv2")
        made = client.create_load_balancer(
            Name=props.get("Name") or _name(ctx, logical_id),
            **pick(props, "IpAddressType", "Scheme", "SecurityGroups", "Subnets", "Tags", "Type"),
        )["LoadBalancers"][0]
        arn = made["LoadBalancerArn"]
        ctx.made(arn)
        self._set(client, arn, props)
        return self._created(made)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        client = ctx.client("elbv2")
        self._set(client, physical_id, new)
        if old.get("SecurityGroups") != new.get("SecurityGroups"):
            client.set_security_groups(LoadBalancerArn=physical_id, SecurityGroups=new["SecurityGroups"])
        if old.get("Subnets") != new.get("Subnets"):
            client.set_subnets(LoadBalancerArn=physical_id, Subnets=new["Subnets"])
        _retag(client, physical_id, old, new)
        return self._created(self._held(client, physical_id))

    @staticmethod
    def _set(client: Any, arn: str, props: Properties) -> None:
        if props.get("LoadBalancerAttributes"):
            client.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=props["LoadBalancerAttributes"])

    @staticmethod
    def _held(client: Any, arn: str) -> dict[str, Any]:
        found: dict[str, Any] = client.describe_load_balancers(LoadBalancerArns=[arn])["LoadBalancers"][0]
        return found

    @staticmethod
    def _created(made: dict[str, Any]) -> Created:
        arn = made["LoadBalancerArn"]
        return Created(
            physical_id=arn,
            attributes={
                "LoadBalancerArn": arn,
                "DNSName": made["DNSName"],
                "LoadBalancerFullName": arn.partition(":loadbalancer/")[2],
                "LoadBalancerName": made["LoadBalancerName"],
                "CanonicalHostedZoneID": made.get("CanonicalHostedZoneId", ""),
            },
        )

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("elbv2").delete_load_balancer(LoadBalancerArn=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("elbv2")
        held = self._held(client, physical_id)
        attributes = client.describe_load_balancer_attributes(LoadBalancerArn=physical_id)["Attributes"]
        return pick(held, "IpAddressType", "Scheme", "SecurityGroups", "Type") | {
            "Name": held["LoadBalancerName"],
            "Subnets": [zone["SubnetId"] for zone in held["AvailabilityZones"]],
            "LoadBalancerAttributes": _asked(attributes, props, "LoadBalancerAttributes"),
            "Tags": _tags(client, physical_id),
        }


_CHECK = (
    "HealthCheckEnabled",
    "HealthCheckIntervalSeconds",
    "HealthCheckPath",
    "HealthCheckProtocol",
    "HealthCheckTimeoutSeconds",
    "HealthyThresholdCount",
    "Matcher",
    "UnhealthyThresholdCount",
)


@register
class TargetGroup(Resource):
    """Where a listener sends requests, and how a target shows that it is well."""

    type_name = "AWS::ElasticLoadBalancingV2::TargetGroup"
    properties = frozenset(
        {*_CHECK, "Name", "Port", "Protocol", "Tags", "TargetGroupAttributes", "TargetType", "VpcId"}
    )
    replace_on = frozenset({"Name", "Port", "Protocol", "TargetType", "VpcId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        client = ctx.client("elbv2")
        arn = client.create_target_group(
            Name=props.get("Name") or _name(ctx, logical_id),
            **pick(props, *_CHECK, "Port", "Protocol", "Tags", "TargetType", "VpcId"),
        )["TargetGroups"][0]["TargetGroupArn"]
        ctx.made(arn)
        self._set(client, arn, props)
        return self._created(arn)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        client = ctx.client("elbv2")
        client.modify_target_group(TargetGroupArn=physical_id, **pick(new, *_CHECK))
        self._set(client, physical_id, new)
        _retag(client, physical_id, old, new)
        return self._created(physical_id)

    @staticmethod
    def _set(client: Any, arn: str, props: Properties) -> None:
        if props.get("TargetGroupAttributes"):
            client.modify_target_group_attributes(TargetGroupArn=arn, Attributes=props["TargetGroupAttributes"])

    @staticmethod
    def _created(arn: str) -> Created:
        full = arn.rpartition(":")[2]
        return Created(
            physical_id=arn,
            attributes={"TargetGroupArn": arn, "TargetGroupFullName": full, "TargetGroupName": full.split("/")[1]},
        )

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("elbv2").delete_target_group(TargetGroupArn=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        client = ctx.client("elbv2")
        held = client.describe_target_groups(TargetGroupArns=[physical_id])["TargetGroups"][0]
        attributes = client.describe_target_group_attributes(TargetGroupArn=physical_id)["Attributes"]
        return pick(held, *_CHECK, "Port", "Protocol", "TargetType", "VpcId") | {
            "Name": held["TargetGroupName"],
            "TargetGroupAttributes": _asked(attributes, props, "TargetGroupAttributes"),
            "Tags": _tags(client, physical_id),
        }


_LISTENER = ("DefaultActions", "Port", "Protocol")


@register
class Listener(Resource):
    """A port of a load balancer; without TLS, for which there are no certificates here."""

    type_name = "AWS::ElasticLoadBalancingV2::Listener"
    properties = frozenset({*_LISTENER, "LoadBalancerArn"})
    replace_on = frozenset({"LoadBalancerArn"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        made = ctx.client("elbv2").create_listener(**pick(props, *_LISTENER, "LoadBalancerArn"))
        arn = made["Listeners"][0]["ListenerArn"]
        return Created(physical_id=arn, attributes={"ListenerArn": arn})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ctx.client("elbv2").modify_listener(ListenerArn=physical_id, **pick(new, *_LISTENER))
        return Created(physical_id=physical_id, attributes={"ListenerArn": physical_id})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("elbv2").delete_listener(ListenerArn=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("elbv2").describe_listeners(ListenerArns=[physical_id])["Listeners"][0]
        actions = [pick(action, "Type", "TargetGroupArn") for action in held["DefaultActions"]]
        return pick(held, "LoadBalancerArn", "Port", "Protocol") | {"DefaultActions": actions}
