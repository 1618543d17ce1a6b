"""IAM: roles, policies, instance profiles."""

from __future__ import annotations

import json
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import document, own_tags, pick, unless_gone


def _name(ctx: Context, logical_id: str, given: str | None) -> str:
    return given or ctx.generate_name(logical_id)[-64:].lstrip("-")


def _policy(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


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
        self._attach(ctx, name, props)
        return Created(physical_id=name, attributes=self._attributes(ctx, name))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        iam = ctx.client("iam")
        iam.update_assume_role_policy(RoleName=physical_id, PolicyDocument=document(new["AssumeRolePolicyDocument"]))
        iam.update_role(RoleName=physical_id, **pick(new, "Description", "MaxSessionDuration"))
        for policy in old.get("Policies", ()):
            iam.delete_role_policy(RoleName=physical_id, PolicyName=policy["PolicyName"])
        for arn in old.get("ManagedPolicyArns", ()):
            iam.detach_role_policy(RoleName=physical_id, PolicyArn=arn)
        if old.get("Tags"):
            iam.untag_role(RoleName=physical_id, TagKeys=[tag["Key"] for tag in old["Tags"]])
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
            unless_gone(lambda role=role: ctx.client("iam").delete_role_policy(RoleName=role, PolicyName=physical_id))
        return self.create(ctx, "", new)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        for role in props.get("Roles", ()):
            unless_gone(lambda role=role: ctx.client("iam").delete_role_policy(RoleName=role, PolicyName=physical_id))

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
        for role in props.get("Roles", ()):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        return Created(physical_id=arn, attributes={"PolicyArn": arn})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        iam = ctx.client("iam")
        iam.create_policy_version(
            PolicyArn=physical_id, PolicyDocument=document(new["PolicyDocument"]), SetAsDefault=True
        )
        return Created(physical_id=physical_id, attributes={"PolicyArn": physical_id})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        iam = ctx.client("iam")
        for role in props.get("Roles", ()):
            unless_gone(lambda role=role: iam.detach_role_policy(RoleName=role, PolicyArn=physical_id))
        unless_gone(lambda: iam.delete_policy(PolicyArn=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        iam = ctx.client("iam")
        held = iam.get_policy(PolicyArn=physical_id)["Policy"]
        version = iam.get_policy_version(PolicyArn=physical_id, VersionId=held["DefaultVersionId"])["PolicyVersion"]
        return pick(held, "Description", "Path") | {
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
        for role in props["Roles"]:
            iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        return Created(physical_id=name, attributes={"Arn": held["Arn"]})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        iam = ctx.client("iam")
        for role in props["Roles"]:
            unless_gone(
                lambda role=role: iam.remove_role_from_instance_profile(InstanceProfileName=physical_id, RoleName=role)
            )
        unless_gone(lambda: iam.delete_instance_profile(InstanceProfileName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("iam").get_instance_profile(InstanceProfileName=physical_id)["InstanceProfile"]
        return pick(held, "InstanceProfileName", "Path") | {"Roles": [role["RoleName"] for role in held["Roles"]]}
