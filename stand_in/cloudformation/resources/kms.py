"""KMS: keys and their names."""

from __future__ import annotations

import json

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import document, own_tags, pick, tag_changes, tag_map, unless_gone


@register
class Key(Resource):
    """A customer key; deleting it schedules its end."""

    type_name = "AWS::KMS::Key"
    properties = frozenset({"Description", "EnableKeyRotation", "KeyPolicy", "PendingWindowInDays", "Tags"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        kms = ctx.client("kms")
        made = kms.create_key(
            Policy=document(props["KeyPolicy"]),
            Tags=[{"TagKey": key, "TagValue": value} for key, value in tag_map(props).items()],
            **pick(props, "Description"),
        )["KeyMetadata"]
        ctx.made(made["KeyId"])
        self._rotate(ctx, made["KeyId"], props)
        return Created(physical_id=made["KeyId"], attributes={"Arn": made["Arn"], "KeyId": made["KeyId"]})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        kms = ctx.client("kms")
        kms.put_key_policy(KeyId=physical_id, PolicyName="default", Policy=document(new["KeyPolicy"]))
        kms.update_key_description(KeyId=physical_id, Description=new.get("Description", ""))
        self._rotate(ctx, physical_id, new)
        kms.untag_resource(KeyId=physical_id, TagKeys=tag_changes(old, new)[0])
        kms.tag_resource(
            KeyId=physical_id, Tags=[{"TagKey": key, "TagValue": value} for key, value in tag_map(new).items()]
        )
        arn = kms.describe_key(KeyId=physical_id)["KeyMetadata"]["Arn"]
        return Created(physical_id=physical_id, attributes={"Arn": arn, "KeyId": physical_id})

    @staticmethod
    def _rotate(ctx: Context, key: str, props: Properties) -> None:
        if str(props.get("EnableKeyRotation", "")).lower() == "true":
            ctx.client("kms").enable_key_rotation(KeyId=key)
        else:
            ctx.client("kms").disable_key_rotation(KeyId=key)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        kms = ctx.client("kms")
        days = int(props.get("PendingWindowInDays", 30))
        unless_gone(lambda: kms.schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        kms = ctx.client("kms")
        rotation = kms.get_key_rotation_status(KeyId=physical_id)
        return {
            "Description": kms.describe_key(KeyId=physical_id)["KeyMetadata"]["Description"],
            "KeyPolicy": json.loads(kms.get_key_policy(KeyId=physical_id, PolicyName="default")["Policy"]),
            "EnableKeyRotation": rotation["KeyRotationEnabled"],
            "Tags": own_tags(
                {"Key": tag["TagKey"], "Value": tag["TagValue"]}
                for tag in kms.list_resource_tags(KeyId=physical_id)["Tags"]
            ),
        }


@register
class Alias(Resource):
    """A name for a key."""

    type_name = "AWS::KMS::Alias"
    properties = frozenset({"AliasName", "TargetKeyId"})
    replace_on = frozenset({"AliasName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        ctx.client("kms").create_alias(AliasName=props["AliasName"], TargetKeyId=_key_id(props["TargetKeyId"]))
        return Created(physical_id=props["AliasName"])

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ctx.client("kms").update_alias(AliasName=physical_id, TargetKeyId=_key_id(new["TargetKeyId"]))
        return Created(physical_id=physical_id)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("kms").delete_alias(AliasName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = next(item for item in ctx.client("kms").list_aliases()["Aliases"] if item["AliasName"] == physical_id)
        wanted = props["TargetKeyId"]
        target = held["TargetKeyId"]
        return {"AliasName": held["AliasName"], "TargetKeyId": wanted if _key_id(wanted) == target else target}


def _key_id(arn_or_id: str) -> str:
    return arn_or_id.rpartition("/")[2]
