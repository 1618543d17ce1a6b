"""SNS: topics, who may publish, who hears."""

from __future__ import annotations

import json
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, register
from stand_in.cloudformation.shapes import document, own_tags, pick, tag_changes, unless_gone


@register
class Topic(Resource):
    """A topic."""

    type_name = "AWS::SNS::Topic"
    properties = frozenset({"DisplayName", "KmsMasterKeyId", "Tags", "TopicName"})
    replace_on = frozenset({"TopicName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        attributes = pick(props, "DisplayName", "KmsMasterKeyId")
        arn = ctx.client("sns").create_topic(
            Name=props.get("TopicName") or ctx.generate_name(logical_id),
            Attributes=attributes,
            Tags=props.get("Tags", []),
        )["TopicArn"]
        return Created(physical_id=arn, attributes=self._attributes(arn))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        sns = ctx.client("sns")
        for name in ("DisplayName", "KmsMasterKeyId"):
            if old.get(name) != new.get(name):
                sns.set_topic_attributes(TopicArn=physical_id, AttributeName=name, AttributeValue=new.get(name, ""))
        gone, tags = tag_changes(old, new)
        sns.untag_resource(ResourceArn=physical_id, TagKeys=gone)
        sns.tag_resource(ResourceArn=physical_id, Tags=tags)
        return Created(physical_id=physical_id, attributes=self._attributes(physical_id))

    @staticmethod
    def _attributes(arn: str) -> dict[str, Any]:
        return {"TopicArn": arn, "TopicName": arn.rpartition(":")[2]}

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("sns").delete_topic(TopicArn=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        sns = ctx.client("sns")
        held = sns.get_topic_attributes(TopicArn=physical_id)["Attributes"]
        return pick(held, "DisplayName", "KmsMasterKeyId") | {
            "TopicName": physical_id.rpartition(":")[2],
            "Tags": own_tags(sns.list_tags_for_resource(ResourceArn=physical_id)["Tags"]),
        }


@register
class TopicPolicy(Resource):
    """Who may publish."""

    type_name = "AWS::SNS::TopicPolicy"
    properties = frozenset({"PolicyDocument", "Topics"})
    replace_on = frozenset({"Topics"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        for topic in props["Topics"]:
            ctx.client("sns").set_topic_attributes(
                TopicArn=topic, AttributeName="Policy", AttributeValue=document(props["PolicyDocument"])
            )
        return Created(physical_id=ctx.generate_name(logical_id), attributes={})

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        self.create(ctx, "", new)
        return Created(physical_id=physical_id)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        """A topic always has a policy: AWS puts its own back, and the topic usually goes with it."""

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        topics = props["Topics"]
        held = ctx.client("sns").get_topic_attributes(TopicArn=topics[0])["Attributes"]["Policy"]
        return {"Topics": topics, "PolicyDocument": json.loads(held)}


@register
class Subscription(Resource):
    """Who hears of it."""

    type_name = "AWS::SNS::Subscription"
    properties = frozenset({"Endpoint", "Protocol", "TopicArn"})
    replace_on = properties

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        made = ctx.client("sns").subscribe(**props, ReturnSubscriptionArn=True)
        return Created(physical_id=made["SubscriptionArn"])

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("sns").unsubscribe(SubscriptionArn=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("sns").get_subscription_attributes(SubscriptionArn=physical_id)["Attributes"]
        return pick(held, "Endpoint", "Protocol", "TopicArn")
