"""Events reach the targets of the rules that match them, if the target lets them in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stand_in.event_input import InputRefused, target_input
from stand_in.events import new_event
from tests.executor.conftest import REGION, World


def event(**detail: Any) -> dict[str, Any]:
    return new_event(source="test.source", detail_type="Something", detail=detail, resources=["arn:r"], region=REGION)


def shaped(target: dict[str, Any], **detail: Any) -> Any:
    return target_input(target, event(**detail), rule_name="r", rule_arn="arn:rule")


def test_only_matching_enabled_rules_are_served(world: World) -> None:
    world.record_events("mine", {"source": ["test.source"], "detail": {"state": ["done"]}})
    deliver = world.executor.events.deliver
    assert deliver(event(state="begun")) == []
    assert [(one.rule, one.problem) for one in deliver(event(state="done"))] == [("mine", "")]
    assert [one["detail"] for one in world.events()] == [{"state": "done"}]
    world.client("events").put_rule(Name="clock", ScheduleExpression="rate(1 day)")
    world.client("events").disable_rule(Name="mine")
    assert deliver(event(state="done")) == []


def test_a_target_that_refuses_or_fails_is_told_and_stops_no_other(world: World) -> None:
    bus = world.client("events")
    failing = world.function("fails", "def handler(event, context):\n    raise ValueError('not today')\n")
    closed = world.function("closed", "def handler(event, context):\n    return 1\n")
    topic = world.client("sns").create_topic(Name="t")["TopicArn"]
    rule = bus.put_rule(Name="all", EventPattern=json.dumps({"source": ["test.source"]}))["RuleArn"]
    gone = failing.replace("fails", "gone")
    targets = [("a", failing), ("b", closed), ("c", gone), ("d", topic), ("e", "arn:aws:sqs:eu-west-1:1:q")]
    bus.put_targets(Rule="all", Targets=[{"Id": key, "Arn": arn} for key, arn in targets])
    world.client("lambda").add_permission(
        FunctionName=failing, StatementId="e", Action="lambda:InvokeFunction", Principal="events.amazonaws.com",
        SourceArn=rule,
    )  # fmt: skip
    problems = {one.target: one.problem for one in world.executor.events.deliver(event())}
    assert problems[failing] == "fails failed: not today"
    assert problems[closed].startswith("no permission lets events.amazonaws.com invoke closed")
    assert problems[gone]
    assert problems[topic] == ""
    assert "no targets of service sqs" in problems["arn:aws:sqs:eu-west-1:1:q"]


def test_the_targets_input() -> None:
    assert shaped({"Input": '{"fixed": 1}'}) == {"fixed": 1}
    assert shaped({"InputPath": "$.detail.list[1]"}, list=["a", "b"]) == "b"
    assert shaped({})["detail-type"] == "Something"
    transformer = {
        "InputPathsMap": {"state": "$.detail.state", "none": "$.detail.none"},
        "InputTemplate": '{"text": "it is <state>", "rule": <aws.events.rule-name>}',
    }
    assert shaped({"InputTransformer": transformer}, state="done") == {"text": "it is done", "rule": "r"}


@pytest.mark.parametrize("target", [{"Input": "no json"}, {"InputPath": "detail"}, {"InputPath": "$.detail[*]"}])
def test_a_wrong_input_is_refused(target: dict[str, str]) -> None:
    with pytest.raises(InputRefused):
        shaped(target)
