"""WatchedAlarms: how every alarm of an endpoint or a fleet is made."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from torchlift.runbook import described


@dataclass(frozen=True, kw_only=True)
class Watch:
    """When an alarm speaks: `breaching` of the last `periods` data points."""

    breaching: int
    periods: int
    silence_breaches: bool = False


# A new instance is in service some ten minutes after the load came: what scaling heals in time is no incident.
SLOW = Watch(breaching=10, periods=15)
# Of five minutes each.
SHARE = Watch(breaching=2, periods=3)


class WatchedAlarms(Construct):
    """Alarms whose names begin with one prefix, reported to the alarm topic; :attr:`alarms` in order of weight."""

    def __init__(self, scope: Construct, id: str, *, prefix: str, topic_arn: str) -> None:
        """Declare none yet: subclasses do."""
        super().__init__(scope, id)
        self._prefix = prefix
        self._action = actions.SnsAction(sns.Topic.from_topic_arn(self, "Topic", topic_arn))
        self.alarms: list[cloudwatch.Alarm] = []

    def _alarm(
        self,
        kind: str,
        text: str,
        *,
        metric: cloudwatch.IMetric,
        threshold: float,
        watch: Watch,
        below: bool = False,
    ) -> None:
        """:param kind: end of the alarm's name, and its section in docs/runbooks.md"""
        operators, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        made = cloudwatch.Alarm(
            self,
            "".join(part.capitalize() for part in kind.split("-")),
            alarm_name=f"{self._prefix}-{kind}",
            alarm_description=described(f"{self._prefix}: {text}", section=kind),
            metric=metric,
            threshold=threshold,
            evaluation_periods=watch.periods,
            datapoints_to_alarm=watch.breaching,
            comparison_operator=(
                operators.LESS_THAN_THRESHOLD if below else operators.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
            ),
            treat_missing_data=missing.BREACHING if watch.silence_breaches else missing.NOT_BREACHING,
        )
        made.add_alarm_action(self._action)
        made.add_ok_action(self._action)
        self.alarms.append(made)
