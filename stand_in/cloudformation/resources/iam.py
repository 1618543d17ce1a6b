"""IAM: roles, policies, instance profiles."""

from __future__ import annotations

import json
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import document, own_tags, pick, tag_changes, unless_gone


def _name(ctx: Context, logical_id: str, given: str | None) -> str:
    return given or ctx.generate_name(logical_id)[-64:].lstrip("-")


def _policy(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _detach(iam: Any, role: str, policy: str) -> None:
    unless_gone(lambda: iam.detach_role_policy(RoleName=role, PolicyArn=policy))


def _take_away(ctx: Context, role: str, policy: str) -> None:
    unless_gone(lambda: ctx.client("iam").delete_role_policy(RoleName=role, PolicyName=policy))


def _take_out(iam: Any, profile: str, role: str) -> None:
    unless_gone(lambda: iam.remove_role_from_instance_profile(InstanceProfileName=profile, RoleName=role))


@register
class Role(Resource):
    """A role with its inline and managed policies."""

    type_name = "AWS::IAM::Role"
    properties = frozenset(
        {
            "AssumeRolePolicyDocument",
            "Description",
            "ManagedPolicyArns",
            "MaxSessionDuration",
            "Path",
            "PermissionsBoundary",
            "Policies",
            "RoleName",
            "Tags",
        }
    )
    replace_on = frozenset({"Path", "RoleName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        iam = ctx.client("iam")
        name = _name(ctx, logical_id, props.get("RoleName"))
        iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=document(props["AssumeRolePolicyDocument"]),
            **pick(props, "Description", "MaxSessionDuration", "Path", "PermissionsBoundary", "Tags"),
        )
        ctx.made(name)
        self._attach(ctx, name, props)
        return Created(physical_id=name, attributes=self._attributes(ctx, name))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        iam = ctx.client("iam")
        iam.update_assume_role_policy(RoleName=physical_id, PolicyDocument=document(new["AssumeRolePolicyDocument"]))
        defaults = {"Description": "", "MaxSessionDuration": 3600}
        iam.update_role(RoleName=physical_id, **(defaults | pick(new, "Description", "MaxSessionDuration")))
        if "PermissionsBoundary" in new:
            boundary = new["PermissionsBoundary"]
            iam.put_role_permissions_boundary(RoleName=physical_id, PermissionsBoundary=boundary)
        elif "PermissionsBoundary" in old:
            iam.delete_role_permissions_boundary(RoleName=physical_id)
        for policy in old.get("Policies", ()):
            iam.delete_role_policy(RoleName=physical_id, PolicyName=policy["PolicyName"])
        for arn in old.get("ManagedPolicyArns", ()):
            iam.detach_role_policy(RoleName=physical_id, PolicyArn=arn)
        gone, _ = tag_changes(old, new)
        if gone:
            iam.untag_role(RoleName=physical_id, TagKeys=gone)
        if new.get("Tags"):
            iam.tag_role(RoleName=physical_id, Tags=new["Tags"])
        self._attach(ctx, physical_id, new)
        return Created(physical_id=physical_id, attributes=self._attributes(ctx, physical_id))

    @staticmethod
    def _attach(ctx: Context, name: str, props: Properties) -> None:
        iam = ctx.client("iam")
        for policy in props.get("Policies", ()):
            iam.put_role_policy(
                RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document(policy["PolicyDocument"])
            )
        for arn in props.get("ManagedPolicyArns", ()):
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)

    @staticmethod
    def _attributes(ctx: Context, name: str) -> dict[str, Any]:
        role = ctx.client("iam").get_role(RoleName=name)["Role"]
        return {"Arn": role["Arn"], "RoleId": role["RoleId"]}

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        iam = ctx.client("iam")
        for policy in (unless_gone(lambda: iam.list_role_policies(RoleName=physical_id)) or {}).get("PolicyNames", ()):
            iam.delete_role_policy(RoleName=physical_id, PolicyName=policy)
        attached = unless_gone(lambda: iam.list_attached_role_policies(RoleName=physical_id)) or {}
        for policy in attached.get("AttachedPolicies", ()):
            iam.detach_role_policy(RoleName=physical_id, PolicyArn=policy["PolicyArn"])
        unless_gone(lambda: iam.delete_role(RoleName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        iam = ctx.client("iam")
        role = iam.get_role(RoleName=physical_id)["Role"]
        inline = [
            {
                "PolicyName": policy["PolicyName"],
                "PolicyDocument": _policy(
                    iam.get_role_policy(RoleName=physical_id, PolicyName=policy["PolicyName"])["PolicyDocument"]
                ),
            }
            for policy in props.get("Policies", ())
        ]
        attached = iam.list_attached_role_policies(RoleName=physical_id)["AttachedPolicies"]
        return pick(role, "Description", "MaxSessionDuration", "Path", "RoleName") | {
            "AssumeRolePolicyDocument": _policy(role["AssumeRolePolicyDocument"]),
            "Policies": inline,
            "ManagedPolicyArns": sorted(policy["PolicyArn"] for policy in attached),
            "PermissionsBoundary": role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
            "Tags": own_tags(role.get("Tags", ())),
        }


@register
class Policy(Resource):
    """An inline policy on roles."""

    type_name = "AWS::IAM::Policy"
    properties = frozenset({"PolicyDocument", "PolicyName", "Roles"})
    replace_on = frozenset({"PolicyName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        for role in props.get("Roles", ()):
            ctx.client("iam").put_role_policy(
                RoleName=role, PolicyName=props["PolicyName"], PolicyDocument=document(props["PolicyDocument"])
            )
        return Created(physical_id=props["PolicyName"])

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        for role in set(old.get("Roles", ())) - set(new.get("Roles", ())):
            _take_away(ctx, role, physical_id)
        return self.create(ctx, "", new)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        for role in props.get("Roles", ()):
            _take_away(ctx, role, physical_id)

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        iam = ctx.client("iam")
        held = [iam.get_role_policy(RoleName=role, PolicyName=physical_id) for role in props.get("Roles", ())]
        return {
            "PolicyName": held[0]["PolicyName"],
            "PolicyDocument": _policy(held[0]["PolicyDocument"]),
            "Roles": [item["RoleName"] for item in held],
        }


@register
class ManagedPolicy(Resource):
    """A policy with an ARN of its own."""

    type_name = "AWS::IAM::ManagedPolicy"
    properties = frozenset({"Description", "ManagedPolicyName", "Path", "PolicyDocument", "Roles"})
    replace_on = properties - {"PolicyDocument", "Roles"}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        iam = ctx.client("iam")
        arn = iam.create_policy(
            PolicyName=_name(ctx, logical_id, props.get("ManagedPolicyName")),
            PolicyDocument=document(props["PolicyDocument"]),
            **pick(props, "Description", "Path"),
        )["Policy"]["Arn"]
        ctx.made(arn)
        for role in props.get("Roles", ()):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        return Created(physical_id=arn, attributes={"PolicyArn": arn})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        iam = ctx.client("iam")
        iam.create_policy_version(
            PolicyArn=physical_id, PolicyDocument=document(new["PolicyDocument"]), SetAsDefault=True
        )
        versions = iam.list_policy_versions(PolicyArn=physical_id)["Versions"]
        for version in [one for one in versions if not one["IsDefaultVersion"]]:
            iam.delete_policy_version(PolicyArn=physical_id, VersionId=version["VersionId"])
        before, after = set(old.get("Roles", ())), set(new.get("Roles", ()))
        for role in before - after:
            _detach(iam, role, physical_id)
        for role in after - before:
            iam.attach_role_policy(RoleName=role, PolicyArn=physical_id)
        return Created(physical_id=physical_id, attributes={"PolicyArn": physical_id})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        iam = ctx.client("iam")
        for role in props.get("Roles", ()):
            _detach(iam, role, physical_id)
        unless_gone(lambda: iam.delete_policy(PolicyArn=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        iam = ctx.client("iam")
        held = iam.get_policy(PolicyArn=physical_id)["Policy"]
        version = iam.get_policy_version(PolicyArn=physical_id, VersionId=held["DefaultVersionId"])["PolicyVersion"]
        attached = iam.list_entities_for_policy(PolicyArn=physical_id, EntityFilter="Role")["PolicyRoles"]
        return pick(held, "Description", "Path") | {
            "Roles": [role["RoleName"] for role in attached],
            "ManagedPolicyName": held["PolicyName"],
            "PolicyDocument": _policy(version["Document"]),
        }


@register
class InstanceProfile(Resource):
    """What gives an instance its role."""

    type_name = "AWS::IAM::InstanceProfile"
    properties = frozenset({"InstanceProfileName", "Path", "Roles"})
    replace_on = frozenset({"InstanceProfileName", "Path"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        iam = ctx.client("iam")
        name = _name(ctx, logical_id, props.get("InstanceProfileName"))
        held = iam.create_instance_profile(InstanceProfileName=name, **pick(props, "Path"))["InstanceProfile"]
        ctx.made(name)
        for role in props["Roles"]:
            iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        return Created(physical_id=name, attributes={"Arn": held["Arn"]})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        iam = ctx.client("iam")
        for role in old["Roles"]:
            _take_out(iam, physical_id, role)
        for role in new["Roles"]:
            iam.add_role_to_instance_profile(InstanceProfileName=physical_id, RoleName=role)
        arn = iam.get_instance_profile(InstanceProfileName=physical_id)["InstanceProfile"]["Arn"]
        return Created(physical_id=physical_id, attributes={"Arn": arn})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        iam = ctx.client("iam")
        for role in props["Roles"]:
            _take_out(iam, physical_id, role)
        unless_gone(lambda: iam.delete_instance_profile(InstanceProfileName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("iam").get_instance_profile(InstanceProfileName=physical_id)["InstanceProfile"]
        return pick(held, "InstanceProfileName", "Path") | {"Roles": [role["RoleName"] for role in held["Roles"]]}
