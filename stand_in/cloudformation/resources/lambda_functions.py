"""Lambda: functions and permissions."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, register
from stand_in.cloudformation.shapes import own_tags, pick, tag_changes, tag_map, unless_gone

CONFIGURATION = (
    "Description",
    "Environment",
    "Handler",
    "KMSKeyArn",
    "LoggingConfig",
    "MemorySize",
    "Role",
    "Runtime",
    "Timeout",
)


DEFAULTS = {"Description": "", "Environment": {"Variables": {}}, "MemorySize": 128, "Timeout": 3}
"""What an update puts back when the template no longer says it."""


@register
class Function(Resource):
    """A function from an archive in S3, or with its source inline."""

    type_name = "AWS::Lambda::Function"
    properties = frozenset(
        {*CONFIGURATION, "Architectures", "Code", "FunctionName", "KmsKeyArn", "Tags"} - {"KMSKeyArn"}
    )
    replace_on = frozenset({"FunctionName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("FunctionName") or ctx.generate_name(logical_id)[-64:].lstrip("-")
        made = ctx.client("lambda").create_function(
            FunctionName=name,
            Code=_code(props["Code"]),
            Tags=tag_map(props),
            **_configuration(props),
            **pick(props, "Architectures"),
        )
        return Created(physical_id=name, attributes={"Arn": made["FunctionArn"]})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        client = ctx.client("lambda")
        client.update_function_configuration(FunctionName=physical_id, **(DEFAULTS | _configuration(new)))
        if (old["Code"], old.get("Architectures")) != (new["Code"], new.get("Architectures")):
            client.update_function_code(FunctionName=physical_id, **_code(new["Code"]), **pick(new, "Architectures"))
        arn = client.get_function_configuration(FunctionName=physical_id)["FunctionArn"]
        gone, _ = tag_changes(old, new)
        if gone:
            client.untag_resource(Resource=arn, TagKeys=gone)
        if new.get("Tags"):
            client.tag_resource(Resource=arn, Tags=tag_map(new))
        return Created(physical_id=physical_id, attributes={"Arn": arn})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("lambda").delete_function(FunctionName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        answer = ctx.client("lambda").get_function(FunctionName=physical_id)
        held = answer["Configuration"]
        found = pick(held, *CONFIGURATION, "Architectures", "FunctionName")
        if "KMSKeyArn" in found:
            found["KmsKeyArn"] = found.pop("KMSKeyArn")
        tags = [{"Key": key, "Value": value} for key, value in answer.get("Tags", {}).items()]
        return found | {"Tags": own_tags(tags)}


def _configuration(props: Properties) -> dict[str, Any]:
    found = pick(props, *CONFIGURATION)
    if "KmsKeyArn" in props:
        found["KMSKeyArn"] = props["KmsKeyArn"]
    return found


def _code(code: Properties) -> dict[str, Any]:
    if "ZipFile" not in code:
        return pick(code, "S3Bucket", "S3Key", "S3ObjectVersion")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("index.py", code["ZipFile"])
    return {"ZipFile": buffer.getvalue()}


@register
class Permission(Resource):
    """Who may invoke a function."""

    type_name = "AWS::Lambda::Permission"
    properties = frozenset({"Action", "FunctionName", "Principal", "SourceAccount", "SourceArn"})
    replace_on = properties

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        statement = ctx.generate_name(logical_id)
        ctx.client("lambda").add_permission(StatementId=statement, **props)
        return Created(physical_id=statement, attributes={"Id": statement})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(
            lambda: ctx.client("lambda").remove_permission(FunctionName=props["FunctionName"], StatementId=physical_id)
        )

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        policy = json.loads(ctx.client("lambda").get_policy(FunctionName=props["FunctionName"])["Policy"])
        for statement in policy["Statement"]:
            if statement["Sid"] == physical_id:
                break
        else:
            raise ResourceFailed(f"the function's policy has no statement {physical_id}")
        principal, condition = statement["Principal"], statement.get("Condition", {})
        found = {
            "Action": statement["Action"],
            "FunctionName": props["FunctionName"]
            if statement["Resource"].endswith(props["FunctionName"])
            else statement["Resource"],
            "Principal": principal["Service"] if isinstance(principal, dict) else principal,
        }
        source = condition.get("ArnLike", {}).get("AWS:SourceArn")
        account = condition.get("StringEquals", {}).get("AWS:SourceAccount")
        return found | {k: v for k, v in (("SourceArn", source), ("SourceAccount", account)) if v is not None}
