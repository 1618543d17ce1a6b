"""JobAlarm: tells people that an instance job failed by its own account."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

from torchlift.runbook import described

FAILURE_LINE = "torchlift: FAILURE:"
"""What the last line of a failed instance begins with (``hosts/instance_job/``)."""
PERIOD = Duration.minutes(5)
"""Lines reach the metric some minutes late, and an alarm on shorter periods may have looked by then."""


class JobAlarm(Construct):
    """A metric filter on the job's log, and an alarm on what it counts.

    An instance signals by itself, and a stack that rolls back takes `signal_job` and its rule away before the instance
    is gone. So this belongs where the log group is, which no rollback of a workload touches.
    """

    def __init__(
        self, scope: Construct, id: str, *, deployment: str, job: str, log_group: logs.ILogGroup, topic_arn: str
    ) -> None:
        """Declare both.

        :param job: such as ``sentiment-train``
        """
        super().__init__(scope, id)
        # Only fields of a line can be dimensions, so the names tell deployments and jobs apart.
        namespace, metric = f"Torchlift/{deployment}/Jobs", f"{job}-failed"
        lines = logs.CfnMetricFilter(
            self,
            "Failures",
            log_group_name=log_group.log_group_name,
            filter_pattern=f'"{FAILURE_LINE}"',
            metric_transformations=[
                logs.CfnMetricFilter.MetricTransformationProperty(
                    metric_namespace=namespace, metric_name=metric, metric_value="1"
                )
            ],
        )
        alarm = cloudwatch.CfnAlarm(
            self,
            "Alarm",
            # The mail's subject is this name.
            alarm_name=f"torchlift-{deployment}-{metric}",
            alarm_description=described(
                f"the job {job} of the deployment {deployment} failed; the reason is the line '{FAILURE_LINE}' in "
                f"/torchlift/{deployment}/jobs/{job}",
                section="job-failed",
            ),
            namespace=namespace,
            metric_name=metric,
            statistic="Sum",
            period=PERIOD.to_seconds(),
            evaluation_periods=1,
            datapoints_to_alarm=1,
            threshold=1,
            comparison_operator="GreaterThanOrEqualToThreshold",
            treat_missing_data="notBreaching",
            alarm_actions=[topic_arn],
        )
        alarm.node.add_dependency(lines)
