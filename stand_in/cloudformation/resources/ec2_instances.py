"""EC2: launch templates, instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, ResourceFailed, changed, register
from stand_in.cloudformation.resources.ec2_base import Ec2Resource
from stand_in.cloudformation.shapes import own_tags, pick, unless_gone


@register
class LaunchTemplate(Ec2Resource):
    """What an instance is started with. A change makes a new version; the name is create-only."""

    type_name = "AWS::EC2::LaunchTemplate"
    properties = frozenset({"LaunchTemplateData", "LaunchTemplateName", "TagSpecifications", "VersionDescription"})
    replace_on = frozenset({"LaunchTemplateName"})

    def with_tags(self, props: Properties, tags: Mapping[str, str]) -> Properties:
        """The template's own tags are one of its TagSpecifications; what it launches is tagged by its data."""
        if not tags:
            return props
        listed = props.get("TagSpecifications", [])
        own = [spec for spec in listed if spec["ResourceType"] == "launch-template"]
        others = [spec for spec in listed if spec not in own]
        held = [tag for spec in own for tag in spec["Tags"]]
        given = {tag["Key"] for tag in held}
        more = [{"Key": key, "Value": value} for key, value in tags.items() if key not in given]
        return {**props, "TagSpecifications": [{"ResourceType": "launch-template", "Tags": [*held, *more]}, *others]}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        made = ctx.client("ec2").create_launch_template(
            LaunchTemplateName=props.get("LaunchTemplateName") or ctx.generate_name(logical_id),
            LaunchTemplateData=props["LaunchTemplateData"],
            **pick(props, "TagSpecifications", "VersionDescription"),
        )["LaunchTemplate"]
        return Created(physical_id=made["LaunchTemplateId"], attributes=self._attributes(made))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        if changed(old, new) - {"TagSpecifications"}:
            ctx.client("ec2").create_launch_template_version(
                LaunchTemplateId=physical_id,
                LaunchTemplateData=new["LaunchTemplateData"],
                **pick(new, "VersionDescription"),
            )
        self.change_tags(ctx, physical_id, self._own_tags(old), self._own_tags(new))
        held = ctx.client("ec2").describe_launch_templates(LaunchTemplateIds=[physical_id])["LaunchTemplates"][0]
        return Created(physical_id=physical_id, attributes=self._attributes(held))

    @staticmethod
    def _own_tags(props: Properties) -> Properties:
        specs = [spec for spec in props.get("TagSpecifications", ()) if spec["ResourceType"] == "launch-template"]
        return {"Tags": [tag for spec in specs for tag in spec["Tags"]]}

    @staticmethod
    def _attributes(held: dict[str, Any]) -> dict[str, Any]:
        return {
            "LaunchTemplateId": held["LaunchTemplateId"],
            "LatestVersionNumber": str(held["LatestVersionNumber"]),
            "DefaultVersionNumber": str(held["DefaultVersionNumber"]),
        }

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ec2").delete_launch_template(LaunchTemplateId=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        ec2 = ctx.client("ec2")
        held = ec2.describe_launch_templates(LaunchTemplateIds=[physical_id])["LaunchTemplates"][0]
        version = ec2.describe_launch_template_versions(LaunchTemplateId=physical_id, Versions=["$Latest"])
        return {
            "LaunchTemplateName": held["LaunchTemplateName"],
            "LaunchTemplateData": version["LaunchTemplateVersions"][0]["LaunchTemplateData"],
            "VersionDescription": version["LaunchTemplateVersions"][0].get("VersionDescription"),
            "TagSpecifications": [{"ResourceType": "launch-template", "Tags": own_tags(held.get("Tags", ()))}],
        }


@register
class Instance(Ec2Resource):
    """One instance, started from a launch template or from its own properties."""

    type_name = "AWS::EC2::Instance"
    properties = frozenset(
        {
            "ImageId",
            "InstanceType",
            "LaunchTemplate",
            "Monitoring",
            "SecurityGroupIds",
            "SubnetId",
            "Tags",
        }
    )
    replace_on = properties - {"Monitoring", "Tags"}

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        arguments = {key: value for key, value in props.items() if key not in ("Tags", "Monitoring")}
        if "Monitoring" in props:
            arguments["Monitoring"] = {"Enabled": bool(props["Monitoring"])}
        made = ctx.client("ec2").run_instances(MinCount=1, MaxCount=1, **arguments)["Instances"][0]
        ctx.made(made["InstanceId"])
        self.set_tags(ctx, made["InstanceId"], props)
        return Created(physical_id=made["InstanceId"], attributes=self._attributes(made))

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        return self._attributes(self._held(ctx, physical_id))

    @staticmethod
    def _attributes(held: dict[str, Any]) -> dict[str, Any]:
        return {
            "InstanceId": held["InstanceId"],
            "PrivateIp": held.get("PrivateIpAddress", ""),
            "PrivateDnsName": held.get("PrivateDnsName", ""),
            "AvailabilityZone": held["Placement"]["AvailabilityZone"],
        }

    @staticmethod
    def _held(ctx: Context, physical_id: str) -> dict[str, Any]:
        found = ctx.client("ec2").describe_instances(InstanceIds=[physical_id])["Reservations"]
        if not found:
            raise ResourceFailed(f"The instance {physical_id} does not exist")
        held: dict[str, Any] = found[0]["Instances"][0]
        return held

    @staticmethod
    def _launched_from(held: dict[str, Any]) -> dict[str, str]:
        """As AWS tells it: by two tags."""
        tags = {tag["Key"]: tag["Value"] for tag in held.get("Tags", ())}
        found = {"LaunchTemplateId": "aws:ec2launchtemplate:id", "Version": "aws:ec2launchtemplate:version"}
        return {key: tags[tag] for key, tag in found.items() if tag in tags}

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        watch = ctx.client("ec2").monitor_instances if new.get("Monitoring") else ctx.client("ec2").unmonitor_instances
        if old.get("Monitoring") != new.get("Monitoring"):
            watch(InstanceIds=[physical_id])
        self.change_tags(ctx, physical_id, old, new)
        return Created(physical_id=physical_id, attributes=self.attributes(ctx, physical_id, new))

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        ec2 = ctx.client("ec2")
        unless_gone(lambda: ec2.terminate_instances(InstanceIds=[physical_id]))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = self._held(ctx, physical_id)
        return pick(held, "ImageId", "InstanceType", "SubnetId") | {
            "LaunchTemplate": self._launched_from(held),
            "Monitoring": held["Monitoring"]["State"] in ("enabled", "pending"),
            "SecurityGroupIds": [group["GroupId"] for group in held.get("SecurityGroups", ())],
            "Tags": own_tags(held.get("Tags", ())),
        }
