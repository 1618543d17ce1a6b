"""What AWS refuses of alarms on alarms."""

from __future__ import annotations

from typing import Any

import pytest

from stand_in.moto_alarms import named_in
from tests.stand_in.conftest import Stacks


def composite(rule: str) -> dict[str, Any]:
    return {"Both": {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": {"AlarmRule": rule}}}


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("TRUE", []),
        ('ALARM("one") OR (OK(two) AND NOT INSUFFICIENT_DATA( "three four" ))', ["one", "two", "three four"]),
        ("ALARM('arn:aws:cloudwatch:us-west-2:123456789012:alarm:five')", ["five"]),
    ],
)
def test_the_alarms_of_a_rule(rule: str, names: list[str]) -> None:
    assert named_in(rule) == names


def test_a_rule_that_names_no_alarm_is_refused(stacks: Stacks) -> None:
    assert stacks.create("s", composite('ALARM("never-made")')) == "ROLLBACK_COMPLETE"
    assert "never-made" in stacks.reason("s", "Both")


def test_a_metric_filter_changes_in_place(stacks: Stacks) -> None:
    """An update leaves one filter of the name, with what the update said."""

    def resources(pattern: str) -> dict[str, Any]:
        transformation = {"MetricName": "m", "MetricNamespace": "n", "MetricValue": "1"}
        return {
            "Logs": {"Type": "AWS::Logs::LogGroup"},
            "Filter": {
                "Type": "AWS::Logs::MetricFilter",
                "Properties": {
                    "FilterPattern": pattern, "LogGroupName": {"Ref": "Logs"},
                    "MetricTransformations": [transformation],
                },
            },
        }  # fmt: skip

    assert stacks.create("s", resources("one")) == "CREATE_COMPLETE"
    assert stacks.update("s", resources("two")) == "UPDATE_COMPLETE"
    held = stacks.aws.client("logs").describe_metric_filters(logGroupName=stacks.resources("s")["Logs"])
    assert [one["filterPattern"] for one in held["metricFilters"]] == ["two"]
