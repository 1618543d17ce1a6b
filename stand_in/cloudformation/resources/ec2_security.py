"""EC2: security groups and their rules."""

from __future__ import annotations

import re
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, register
from stand_in.cloudformation.resources.ec2_base import Ec2Resource
from stand_in.cloudformation.shapes import own_tags, pick, unless_gone

RULE_KEYS = (
    "CidrIp",
    "Description",
    "DestinationSecurityGroupId",
    "FromPort",
    "IpProtocol",
    "SourceSecurityGroupId",
    "ToPort",
)


DESCRIPTION = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}")
"""What EC2 takes (API reference, CreateSecurityGroup and IpRange)."""


def check_description(text: str) -> None:
    """Raise ResourceFailed for a description that EC2 refuses: an apostrophe is enough."""
    if not DESCRIPTION.fullmatch(text):
        raise ResourceFailed(
            f"Invalid description '{text}'. Valid descriptions are strings less than 256 characters from the following "
            "set: a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*"
        )


def permission(rule: Properties) -> dict[str, Any]:
    """A rule of CloudFormation as an IpPermission of the API."""
    unknown = set(rule) - set(RULE_KEYS) - {"GroupId"}
    if unknown:
        raise ResourceFailed(f"the stand-in does not know {sorted(unknown)} of a security group's rule")
    made: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"])} | pick(rule, "FromPort", "ToPort")
    note = pick(rule, "Description")
    check_description(note.get("Description", ""))
    if "CidrIp" in rule:
        made["IpRanges"] = [{"CidrIp": rule["CidrIp"], **note}]
    group = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    if group:
        made["UserIdGroupPairs"] = [{"GroupId": group, **note}]
    return made


def rules(permissions: list[dict[str, Any]], *, ingress: bool) -> list[Properties]:
    """IpPermissions of the API as rules of CloudFormation."""
    side = "Source" if ingress else "Destination"
    found = []
    for held in permissions:
        base = {"IpProtocol": held["IpProtocol"]} | pick(held, "FromPort", "ToPort")
        for item in held.get("IpRanges", ()):
            found.append(base | pick(item, "CidrIp", "Description"))
        for item in held.get("UserIdGroupPairs", ()):
            found.append(base | {f"{side}SecurityGroupId": item["GroupId"]} | pick(item, "Description"))
    return sorted(found, key=str)


@register
class SecurityGroup(Ec2Resource):
    """A group with its inline rules; AWS's rule that lets everything out goes when egress is given."""

    type_name = "AWS::EC2::SecurityGroup"
    properties = frozenset(
        {"GroupDescription", "GroupName", "SecurityGroupEgress", "SecurityGroupIngress", "Tags", "VpcId"}
    )
    replace_on = frozenset({"GroupDescription", "GroupName", "VpcId"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        check_description(props["GroupDescription"])
        ec2 = ctx.client("ec2")
        group = ec2.create_security_group(
            GroupName=props.get("GroupName") or ctx.generate_name(logical_id),
            Description=props["GroupDescription"],
            VpcId=props["VpcId"],
        )["GroupId"]
        ctx.made(group)
        if "SecurityGroupEgress" in props:
            default = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissionsEgress"]
            if default:
                ec2.revoke_security_group_egress(GroupId=group, IpPermissions=default)
        self._authorize(ctx, group, props)
        self.set_tags(ctx, group, props)
        return Created(physical_id=group, attributes=self.attributes(ctx, group, props))

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        return {"GroupId": physical_id, "VpcId": props["VpcId"]}

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ec2 = ctx.client("ec2")
        for rule in old.get("SecurityGroupIngress", ()):
            ec2.revoke_security_group_ingress(GroupId=physical_id, IpPermissions=[permission(rule)])
        for rule in old.get("SecurityGroupEgress", ()):
            ec2.revoke_security_group_egress(GroupId=physical_id, IpPermissions=[permission(rule)])
        self._authorize(ctx, physical_id, new)
        self.change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes=self.attributes(ctx, physical_id, new))

    @staticmethod
    def _authorize(ctx: Context, group: str, props: Properties) -> None:
        ec2 = ctx.client("ec2")
        for rule in props.get("SecurityGroupIngress", ()):
            ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission(rule)])
        for rule in props.get("SecurityGroupEgress", ()):
            ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[permission(rule)])

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_security_group(GroupId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_security_groups(GroupIds=[physical_id])["SecurityGroups"][0]
        return {
            "GroupDescription": held["Description"],
            "GroupName": held["GroupName"],
            "VpcId": held["VpcId"],
            "SecurityGroupIngress": rules(held["IpPermissions"], ingress=True),
            "SecurityGroupEgress": rules(held["IpPermissionsEgress"], ingress=False),
            "Tags": own_tags(held.get("Tags", ())),
        }


class SecurityGroupRule(Resource):
    """One rule as a resource of its own."""

    ingress: bool

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ec2 = ctx.client("ec2")
        authorize = ec2.authorize_security_group_ingress if self.ingress else ec2.authorize_security_group_egress
        made = authorize(GroupId=props["GroupId"], IpPermissions=[permission(props)])
        return Created(physical_id=made["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        ec2 = ctx.client("ec2")
        revoke = ec2.revoke_security_group_ingress if self.ingress else ec2.revoke_security_group_egress
        unless_gone(lambda: revoke(GroupId=props["GroupId"], IpPermissions=[permission(props)]))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("ec2").describe_security_groups(GroupIds=[props["GroupId"]])["SecurityGroups"][0]
        key = "IpPermissions" if self.ingress else "IpPermissionsEgress"
        wanted = {name: value for name, value in props.items() if name != "GroupId"}
        for rule in rules(held[key], ingress=self.ingress):
            if rule == wanted:
                return {"GroupId": held["GroupId"], **rule}
        return {"GroupId": held["GroupId"]}


@register
class SecurityGroupIngress(SecurityGroupRule):
    """A way in."""

    type_name = "AWS::EC2::SecurityGroupIngress"
    properties = frozenset({*RULE_KEYS, "GroupId"} - {"DestinationSecurityGroupId"})
    replace_on = properties
    ingress = True


@register
class SecurityGroupEgress(SecurityGroupRule):
    """A way out."""

    type_name = "AWS::EC2::SecurityGroupEgress"
    properties = frozenset({*RULE_KEYS, "GroupId"} - {"SourceSecurityGroupId"})
    replace_on = properties
    ingress = False
