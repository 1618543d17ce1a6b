"""IdleAlarm: tells people that an instance does nothing, and stops it."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from torchlift.runbook import described

BUSY_CORES = 0.5
"""What an idle system never needs over minutes, and one process that works, or feeds a GPU, always does."""
PERIOD_MINUTES = 5
TELL_MINUTES = 120
"""After how long people are told where nothing is stopped."""


class IdleAlarm(Construct):
    """Less than half a core used, all the time.

    EC2 publishes no GPU values, and an agent for them would have to be installed at boot; a GPU that computes keeps
    the core busy that feeds it. No data is no alarm: a stopped instance sends none.

    CloudWatch stops the instance through the service-linked role `AWSServiceRoleForCloudWatchEvents`, which the first
    alarm with such an action makes (CloudWatch user guide, "Using service-linked roles"). Its disk stays.
    """

    def __init__(
        self, scope: Construct, id: str, *, instance_id: str, vcpus: int, stop_minutes: int, topic_arn: str
    ) -> None:
        """Declare the alarm.

        :param stop_minutes: a multiple of 5 up to 1440 (an alarm looks back one day at most), or 0: never stop
        """
        super().__init__(scope, id)
        minutes = stop_minutes or TELL_MINUTES
        text = f"the development box has used less than half a core for {minutes} minutes"
        stop = [f"arn:{Aws.PARTITION}:automate:{Aws.REGION}:ec2:stop"] if stop_minutes else []
        cloudwatch.CfnAlarm(
            self,
            "Alarm",
            alarm_description=described(f"{text}{', so it is stopped' if stop_minutes else ''}", section="idle-box"),
            namespace="AWS/EC2",
            metric_name="CPUUtilization",
            dimensions=[cloudwatch.CfnAlarm.DimensionProperty(name="InstanceId", value=instance_id)],
            # Short work between two long pauses counts.
            statistic="Maximum",
            period=Duration.minutes(PERIOD_MINUTES).to_seconds(),
            evaluation_periods=minutes // PERIOD_MINUTES,
            datapoints_to_alarm=minutes // PERIOD_MINUTES,
            # Per cent of all vCPUs.
            threshold=round(100 * BUSY_CORES / vcpus, 2),
            comparison_operator="LessThanThreshold",
            treat_missing_data="notBreaching",
            alarm_actions=[topic_arn, *stop],
        )
