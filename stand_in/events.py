"""EventBridge for the stand-in: matches events against the rules that were deployed and calls their targets."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.events.models import Rule, events_backends

from stand_in.environment import ACCOUNT
from stand_in.event_input import InputRefused, target_input
from stand_in.executor.site import Site
from stand_in.lambda_runtime import FunctionNotFound, LambdaRuntime

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What became of an event at one target; `problem` is empty when it was delivered."""

    rule: str
    target: str
    problem: str


def new_event(
    *,
    source: str,
    detail_type: str,
    detail: Mapping[str, Any],
    resources: list[str],
    region: str,
    account: str = ACCOUNT,
) -> dict[str, Any]:
    """An event in EventBridge's envelope."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": account,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": resources,
        "detail": dict(detail),
    }


class Events:
    """The default event bus of every region."""

    def __init__(self, site: Site, lambdas: LambdaRuntime) -> None:
        self._site = site
        self._lambdas = lambdas

    def deliver(self, event: Mapping[str, Any]) -> list[Delivery]:
        """Call the targets of every enabled rule that matches, and wait for them.

        A target that refuses or fails is logged and reported, never raised: EventBridge's senders do not hear of it.
        """
        bus = events_backends[event["account"]][event["region"]].event_buses["default"]
        deliveries = []
        for rule in list(bus.rules.values()):
            # A rule without a pattern is a schedule; moto would let it match everything.
            if rule.state == "ENABLED" and rule.event_pattern.dump() and rule.event_pattern.matches_event(dict(event)):
                deliveries += [self._to_target(rule, target, event) for target in list(rule.targets)]
        if not deliveries:
            log.info("%s from %s: no rule matches", event["detail-type"], event["source"])
        return deliveries

    def _to_target(self, rule: Rule, target: Mapping[str, Any], event: Mapping[str, Any]) -> Delivery:
        arn = target["Arn"]
        try:
            payload = target_input(target, event, rule_name=rule.name, rule_arn=rule.arn)
            service = arn.split(":")[2]
            if service == "lambda":
                problem = self._to_function(arn, payload, rule)
            elif service == "sns":
                self._site.own_client("sns", arn.split(":")[3]).publish(TopicArn=arn, Message=json.dumps(payload))
                problem = ""
            else:
                problem = f"the stand-in delivers to no targets of service {service}"
        except (InputRefused, FunctionNotFound) as error:
            problem = str(error)
        except Exception as error:  # a broken target must not stop the others
            log.exception("rule %s, target %s", rule.name, arn)
            problem = f"{type(error).__name__}: {error}"
        level = logging.ERROR if problem else logging.INFO
        log.log(level, "%s -> rule %s -> %s: %s", event["detail-type"], rule.name, arn, problem or "delivered")
        return Delivery(rule=rule.name, target=arn, problem=problem)

    def _to_function(self, arn: str, payload: Any, rule: Rule) -> str:
        region, account = arn.split(":")[3:5]
        function = arn.split(":function:")[-1]
        if not _permitted(account, region, function, rule.arn):
            return f"no permission lets events.amazonaws.com invoke {function} for rule {rule.name}"
        result = self._lambdas.invoke_with_retries(arn, payload, region=region, account=account)
        return f"{function} failed: {result.payload.get('errorMessage')}" if result.error else ""


def _permitted(account: str, region: str, function: str, rule_arn: str) -> bool:
    """Whether the function's resource policy lets EventBridge call it for this rule."""
    found = lambda_backends[account][region].get_function(function)
    for statement in found.policy.statements:
        if statement.get("Effect", "Allow") != "Allow" or statement.get("Action") not in (
            "lambda:InvokeFunction",
            "lambda:*",
        ):
            continue
        principal = statement.get("Principal")
        service = principal.get("Service") if isinstance(principal, dict) else principal
        if service not in ("events.amazonaws.com", "*"):
            continue
        condition = statement.get("Condition", {})
        source = condition.get("ArnLike", {}).get("AWS:SourceArn", "*")
        source_account = condition.get("StringEquals", {}).get("AWS:SourceAccount", account)
        if fnmatchcase(rule_arn, source) and source_account == account:
            return True
    return False
