"""What the resources of EC2 have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from stand_in.cloudformation.registry import Context, Created, Properties, Refused, Resource, changed
from stand_in.cloudformation.shapes import tag_changes


class Ec2Resource(Resource):
    """Tags are CreateTags on the resource's id; nothing else changes in place unless a subclass says how."""

    id_attribute: ClassVar[str] = ""
    """The attribute that repeats the resource's id."""

    def set_tags(self, ctx: Context, resource_id: str, props: Properties) -> None:
        """Put the tags of `props` on the resource."""
        if props.get("Tags"):
            ctx.client("ec2").create_tags(Resources=[resource_id], Tags=props["Tags"])

    def change_tags(self, ctx: Context, resource_id: str, old: Properties, new: Properties) -> None:
        """Make the tags of `old` those of `new`."""
        gone, _ = tag_changes(old, new)
        if gone:
            ctx.client("ec2").delete_tags(Resources=[resource_id], Tags=[{"Key": key} for key in gone])
        self.set_tags(ctx, resource_id, new)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        """Tags only."""
        if changed(old, new) - {"Tags"}:
            raise Refused(f"{self.type_name} cannot change {sorted(changed(old, new))} in place")
        self.change_tags(ctx, self.tagged(ctx, physical_id), old, new)
        return Created(physical_id=physical_id, attributes=self.attributes(ctx, physical_id, new))

    def tagged(self, ctx: Context, physical_id: str) -> str:
        """The id that carries the tags."""
        return physical_id

    def attributes(self, ctx: Context, physical_id: str, props: Properties) -> dict[str, Any]:
        """What GetAtt gives."""
        return {self.id_attribute: physical_id} if self.id_attribute else {}
