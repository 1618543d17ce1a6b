"""CodeBuild: projects."""

from __future__ import annotations

from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import lower_camel, own_tags, unless_gone, upper_camel


@register
class Project(Resource):
    """A CodeBuild project."""

    type_name = "AWS::CodeBuild::Project"
    properties = frozenset(
        {
            "Artifacts",
            "Description",
            "EncryptionKey",
            "Environment",
            "LogsConfig",
            "Name",
            "QueuedTimeoutInMinutes",
            "ServiceRole",
            "Source",
            "Tags",
            "TimeoutInMinutes",
        }
    )
    replace_on = frozenset({"Name"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("Name") or ctx.generate_name(logical_id)
        made = ctx.client("codebuild").create_project(name=name, **self._api(props))["project"]
        return Created(physical_id=name, attributes={"Arn": made["arn"]})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        # UpdateProject leaves what it is not told.
        empty: dict[str, Any] = {"description": "", "tags": []}
        if "EncryptionKey" in old:
            empty["encryptionKey"] = f"arn:aws:kms:{ctx.region}:{ctx.account}:alias/aws/s3"
        made = ctx.client("codebuild").update_project(name=physical_id, **(empty | self._api(new)))["project"]
        return Created(physical_id=physical_id, attributes={"Arn": made["arn"]})

    @staticmethod
    def _api(props: Properties) -> dict[str, Any]:
        made: dict[str, Any] = lower_camel({key: value for key, value in props.items() if key != "Name"})
        source = made["source"]
        if "buildSpec" in source:
            source["buildspec"] = source.pop("buildSpec")
        logs = made.get("logsConfig", {})
        for kind in ("cloudWatchLogs", "s3Logs"):
            # The API has groupName and streamName, as the template has with capitals; encryptionDisabled likewise.
            if kind in logs:
                logs[kind].setdefault("status", "ENABLED")
        return made

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("codebuild").delete_project(name=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("codebuild").batch_get_projects(names=[physical_id])["projects"][0]
        found: dict[str, Any] = upper_camel(held)
        if "Buildspec" in found["Source"]:
            found["Source"]["BuildSpec"] = found["Source"].pop("Buildspec")
        found["Tags"] = own_tags(held.get("tags") or ())
        return {key: value for key, value in found.items() if key in self.properties}
