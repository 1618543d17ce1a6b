"""How an endpoint's traffic moves from the old fleet to the new one, and what moves it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

TRAFFIC = {"all-at-once": "ALL_AT_ONCE", "canary": "CANARY", "linear": "LINEAR"}
MOST_ALARMS = 10
"""So many SageMaker watches during an update (API reference, AutoRollbackConfig)."""


@dataclass(frozen=True, kw_only=True)
class UpdatePolicy:
    """Blue/green: a new fleet beside the old one, then traffic in one step or in parts.

    :param traffic: a key of TRAFFIC
    :param step_percent: of a variant's instances: the canary's size, or one linear step; None for all at once
    :param bake_seconds: how long the alarms watch after each part
    :param longest_seconds: when SageMaker gives up; more than all waits together
    :param auto_rollback: whether alarms roll the update back
    """

    traffic: str
    step_percent: int | None
    bake_seconds: int
    longest_seconds: int
    auto_rollback: bool

    def render(self, alarm_names: Sequence[str]) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
        """The endpoint's DeploymentConfig.

        :raises ValueError: more alarms than SageMaker watches
        """
        if len(alarm_names) > MOST_ALARMS:
            raise ValueError(f"SageMaker watches {MOST_ALARMS} alarms during an update, not {len(alarm_names)}")
        endpoint = sagemaker.CfnEndpoint
        size = (
            None
            if self.step_percent is None
            else endpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=self.step_percent)
        )
        return endpoint.DeploymentConfigProperty(
            auto_rollback_configuration=endpoint.AutoRollbackConfigProperty(
                alarms=[endpoint.AlarmProperty(alarm_name=name) for name in alarm_names]
            )
            if self.auto_rollback
            else None,
            blue_green_update_policy=endpoint.BlueGreenUpdatePolicyProperty(
                maximum_execution_timeout_in_seconds=self.longest_seconds,
                termination_wait_in_seconds=0,
                traffic_routing_configuration=endpoint.TrafficRoutingConfigProperty(
                    type=TRAFFIC[self.traffic],
                    wait_interval_in_seconds=self.bake_seconds,
                    canary_size=size if self.traffic == "canary" else None,
                    linear_step_size=size if self.traffic == "linear" else None,
                ),
            ),
        )
