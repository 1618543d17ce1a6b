"""Logs, SNS, SSM, EventBridge, budgets."""

from __future__ import annotations

import copy
import json
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, register
from stand_in.cloudformation.shapes import document, own_tags, pick, tag_map, unless_gone


@register
class LogGroup(Resource):
    """A log group. One that exists already is refused, as on AWS."""

    type_name = "AWS::Logs::LogGroup"
    properties = frozenset({"KmsKeyId", "LogGroupClass", "LogGroupName", "RetentionInDays", "Tags"})
    replace_on = frozenset({"LogGroupClass", "LogGroupName"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        logs = ctx.client("logs")
        name = props.get("LogGroupName") or ctx.generate_name(logical_id)
        more = {"kmsKeyId": props["KmsKeyId"]} if "KmsKeyId" in props else {}
        if props.get("Tags"):
            more["tags"] = tag_map(props)
        logs.create_log_group(logGroupName=name, **more)
        self._retain(ctx, name, props)
        return Created(physical_id=name, attributes=self._attributes(ctx, name))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        logs = ctx.client("logs")
        self._retain(ctx, physical_id, new)
        if "RetentionInDays" in old and "RetentionInDays" not in new:
            logs.delete_retention_policy(logGroupName=physical_id)
        arn = self._attributes(ctx, physical_id)["Arn"].removesuffix(":*")
        gone = set(tag_map(old)) - set(tag_map(new))
        if gone:
            logs.untag_resource(resourceArn=arn, tagKeys=sorted(gone))
        if new.get("Tags"):
            logs.tag_resource(resourceArn=arn, tags=tag_map(new))
        return Created(physical_id=physical_id, attributes=self._attributes(ctx, physical_id))

    @staticmethod
    def _retain(ctx: Context, name: str, props: Properties) -> None:
        if "RetentionInDays" in props:
            ctx.client("logs").put_retention_policy(logGroupName=name, retentionInDays=int(props["RetentionInDays"]))

    @staticmethod
    def _attributes(ctx: Context, name: str) -> dict[str, Any]:
        return {"Arn": f"arn:aws:logs:{ctx.region}:{ctx.account}:log-group:{name}:*"}

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("logs").delete_log_group(logGroupName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        logs = ctx.client("logs")
        groups = logs.describe_log_groups(logGroupNamePrefix=physical_id)["logGroups"]
        held = next(group for group in groups if group["logGroupName"] == physical_id)
        tags = logs.list_tags_for_resource(resourceArn=held["arn"].removesuffix(":*"))["tags"]
        return {
            "LogGroupName": held["logGroupName"],
            "RetentionInDays": held.get("retentionInDays"),
            "KmsKeyId": held.get("kmsKeyId"),
            "Tags": own_tags({"Key": key, "Value": value} for key, value in tags.items()),
        }


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
        if old.get("Tags") != new.get("Tags"):
            sns.untag_resource(ResourceArn=physical_id, TagKeys=list(tag_map(old)))
            sns.tag_resource(ResourceArn=physical_id, Tags=new.get("Tags", []))
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


@register
class Parameter(Resource):
    """A parameter of Systems Manager."""

    type_name = "AWS::SSM::Parameter"
    properties = frozenset({"Description", "Name", "Tags", "Type", "Value"})
    replace_on = frozenset({"Name"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("Name") or ctx.generate_name(logical_id)
        tags = [{"Key": key, "Value": value} for key, value in (props.get("Tags") or {}).items()]
        ctx.client("ssm").put_parameter(Name=name, **pick(props, "Description", "Type", "Value"), Tags=tags)
        return Created(physical_id=name, attributes=pick(props, "Type", "Value"))

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        ssm = ctx.client("ssm")
        ssm.put_parameter(Name=physical_id, Overwrite=True, **pick(new, "Description", "Type", "Value"))
        self._retag(ssm, physical_id, old.get("Tags") or {}, new.get("Tags") or {})
        return Created(physical_id=physical_id, attributes=pick(new, "Type", "Value"))

    @staticmethod
    def _retag(ssm: Any, name: str, old: dict[str, str], new: dict[str, str]) -> None:
        if set(old) - set(new):
            ssm.remove_tags_from_resource(
                ResourceType="Parameter", ResourceId=name, TagKeys=sorted(set(old) - set(new))
            )
        if new:
            tags = [{"Key": key, "Value": value} for key, value in new.items()]
            ssm.add_tags_to_resource(ResourceType="Parameter", ResourceId=name, Tags=tags)

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("ssm").delete_parameter(Name=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        ssm = ctx.client("ssm")
        held = ssm.get_parameter(Name=physical_id)["Parameter"]
        described = ssm.describe_parameters(ParameterFilters=[{"Key": "Name", "Values": [physical_id]}])["Parameters"][
            0
        ]
        tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=physical_id)["TagList"]
        return (
            pick(held, "Name", "Type", "Value")
            | pick(described, "Description")
            | {"Tags": {tag["Key"]: tag["Value"] for tag in tags}}
        )


@register
class Rule(Resource):
    """An EventBridge rule with its targets."""

    type_name = "AWS::Events::Rule"
    properties = frozenset(
        {"Description", "EventBusName", "EventPattern", "Name", "ScheduleExpression", "State", "Tags", "Targets"}
    )
    replace_on = frozenset({"EventBusName", "Name"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        return self._put(ctx, props.get("Name") or ctx.generate_name(logical_id)[-64:].lstrip("-"), props)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        gone = {target["Id"] for target in old.get("Targets", ())} - {target["Id"] for target in new.get("Targets", ())}
        if gone:
            ctx.client("events").remove_targets(Rule=physical_id, Ids=sorted(gone))
        return self._put(ctx, physical_id, new)

    @staticmethod
    def _put(ctx: Context, name: str, props: Properties) -> Created:
        events = ctx.client("events")
        arguments = pick(props, "Description", "EventBusName", "ScheduleExpression", "State", "Tags")
        if "EventPattern" in props:
            arguments["EventPattern"] = json.dumps(props["EventPattern"])
        arn = events.put_rule(Name=name, **arguments)["RuleArn"]
        if props.get("Targets"):
            answer = events.put_targets(Rule=name, Targets=props["Targets"])
            if answer["FailedEntryCount"]:
                raise ResourceFailed(answer["FailedEntries"][0]["ErrorMessage"])
        return Created(physical_id=name, attributes={"Arn": arn})

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        events = ctx.client("events")
        ids = [target["Id"] for target in props.get("Targets", ())]
        if ids:
            unless_gone(lambda: events.remove_targets(Rule=physical_id, Ids=ids))
        unless_gone(lambda: events.delete_rule(Name=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        events = ctx.client("events")
        held = events.describe_rule(Name=physical_id)
        found = pick(held, "Description", "EventBusName", "Name", "ScheduleExpression", "State")
        if "EventPattern" in held:
            found["EventPattern"] = json.loads(held["EventPattern"])
        found["Targets"] = events.list_targets_by_rule(Rule=physical_id)["Targets"]
        found["Tags"] = own_tags(events.list_tags_for_resource(ResourceARN=held["Arn"])["Tags"])
        return found


@register
class Budget(Resource):
    """A budget of the account."""

    type_name = "AWS::Budgets::Budget"
    properties = frozenset({"Budget", "NotificationsWithSubscribers"})
    replace_on = frozenset({"NotificationsWithSubscribers"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        budget = self._budget(props)
        budget.setdefault("BudgetName", ctx.generate_name(logical_id))
        ctx.client("budgets").create_budget(
            AccountId=ctx.account, Budget=budget, **pick(props, "NotificationsWithSubscribers")
        )
        return Created(physical_id=budget["BudgetName"])

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        self.delete(ctx, physical_id, old)
        budget = self._budget(new) | {"BudgetName": physical_id}
        ctx.client("budgets").create_budget(
            AccountId=ctx.account, Budget=budget, **pick(new, "NotificationsWithSubscribers")
        )
        return Created(physical_id=physical_id)

    @staticmethod
    def _budget(props: Properties) -> dict[str, Any]:
        budget: dict[str, Any] = copy.deepcopy(props["Budget"])
        if "BudgetLimit" in budget:
            budget["BudgetLimit"]["Amount"] = str(budget["BudgetLimit"]["Amount"])
        return budget

    def delete(self, ctx: Context, physical_id: str, props: Properties) -> None:
        unless_gone(lambda: ctx.client("budgets").delete_budget(AccountId=ctx.account, BudgetName=physical_id))

    def read(self, ctx: Context, physical_id: str, props: Properties) -> Properties:
        held = ctx.client("budgets").describe_budget(AccountId=ctx.account, BudgetName=physical_id)["Budget"]
        found = pick(held, "BudgetName", "BudgetType", "TimeUnit")
        if "BudgetLimit" in held:
            wanted = props["Budget"].get("BudgetLimit", {}).get("Amount")
            amount = held["BudgetLimit"]["Amount"]
            found["BudgetLimit"] = held["BudgetLimit"] | {
                "Amount": wanted if wanted is not None and float(wanted) == float(amount) else amount
            }
        return {"Budget": found}
