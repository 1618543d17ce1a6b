"""EventBridge, budgets."""

from __future__ import annotations

import copy
import json
from typing import Any

from stand_in.cloudformation.registry import Context, Created, Properties, Resource, ResourceFailed, register
from stand_in.cloudformation.shapes import own_tags, pick, tag_changes, unless_gone


@register
class Rule(Resource):
    """An EventBridge rule with its targets."""

    type_name = "AWS::Events::Rule"
    properties = frozenset({"Description", "EventPattern", "Name", "ScheduleExpression", "State", "Tags", "Targets"})
    replace_on = frozenset({"Name"})

    def create(self, ctx: Context, logical_id: str, props: Properties) -> Created:
        name = props.get("Name") or ctx.generate_name(logical_id)[-64:].lstrip("-")
        ctx.made(name)
        return self._put(ctx, name, props)

    def update(self, ctx: Context, physical_id: str, old: Properties, new: Properties) -> Created:
        gone = {target["Id"] for target in old.get("Targets", ())} - {target["Id"] for target in new.get("Targets", ())}
        if gone:
            ctx.client("events").remove_targets(Rule=physical_id, Ids=sorted(gone))
        made = self._put(ctx, physical_id, {"State": "ENABLED"} | new)
        unwanted, tags = tag_changes(old, new)
        ctx.client("events").untag_resource(ResourceARN=made.attributes["Arn"], TagKeys=unwanted)
        ctx.client("events").tag_resource(ResourceARN=made.attributes["Arn"], Tags=tags)
        return made

    @staticmethod
    def _put(ctx: Context, name: str, props: Properties) -> Created:
        events = ctx.client("events")
        arguments = pick(props, "Description", "ScheduleExpression", "State", "Tags")
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
        found = pick(held, "Description", "Name", "ScheduleExpression", "State")
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
        told = ctx.client("budgets").describe_notifications_for_budget(AccountId=ctx.account, BudgetName=physical_id)
        # moto shows no subscribers: what is shown of each notification is the declared ones'.
        declared = props.get("NotificationsWithSubscribers", [])
        subscribers = {json.dumps(one["Notification"], sort_keys=True): one["Subscribers"] for one in declared}
        notifications = [
            {"Notification": one, "Subscribers": subscribers.get(json.dumps(one, sort_keys=True))}
            for one in told["Notifications"]
        ]
        return {"Budget": found, "NotificationsWithSubscribers": notifications}
