"""EndpointAlarms: what tells people, and what rolls an update back."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

PERIOD_SECONDS = 60
SERVER_ERRORS = 5
"""Failed invocations a minute from which on something is wrong."""


class EndpointAlarms(Construct):
    """Server errors and slow answers of one variant, reported to the alarm topic.

    The names are fixed: the endpoint names the alarms that roll its updates back, and the alarms name the endpoint, so
    one side must not refer to the other. No data is no alarm: an endpoint without traffic is well.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint_name: str,
        variant_name: str,
        prefix: str,
        latency_p99_ms: int,
        topic_arn: str,
    ) -> None:
        """Declare the alarms; :attr:`names` are literal.

        :param prefix: start of the alarms' names, which an account knows once
        :param latency_p99_ms: milliseconds that the model may take for 99 of 100 requests
        """
        super().__init__(scope, id)
        self._dimensions = [
            cloudwatch.CfnAlarm.DimensionProperty(name="EndpointName", value=endpoint_name),
            cloudwatch.CfnAlarm.DimensionProperty(name="VariantName", value=variant_name),
        ]
        self._topic_arn = topic_arn
        self.names = (f"{prefix}-server-errors", f"{prefix}-latency")
        self._build_alarm(
            "ServerErrors",
            name=self.names[0],
            description=f"{prefix} answers with server errors",
            metric="Invocation5XXErrors",
            statistic="Sum",
            threshold=SERVER_ERRORS,
        )
        self._build_alarm(
            "Latency",
            name=self.names[1],
            description=f"{prefix}: 1 in 100 requests takes the model {latency_p99_ms} ms or longer",
            metric="ModelLatency",
            extended_statistic="p99",
            # SageMaker reports microseconds.
            threshold=latency_p99_ms * 1000,
        )

    def _build_alarm(
        self,
        id: str,
        *,
        name: str,
        description: str,
        metric: str,
        threshold: float,
        statistic: str | None = None,
        extended_statistic: str | None = None,
    ) -> cloudwatch.CfnAlarm:
        return cloudwatch.CfnAlarm(
            self,
            id,
            alarm_name=name,
            alarm_description=description,
            namespace="AWS/SageMaker",
            metric_name=metric,
            dimensions=self._dimensions,
            statistic=statistic,
            extended_statistic=extended_statistic,
            period=PERIOD_SECONDS,
            evaluation_periods=3,
            datapoints_to_alarm=2,
            threshold=threshold,
            comparison_operator="GreaterThanOrEqualToThreshold",
            treat_missing_data="notBreaching",
            alarm_actions=[self._topic_arn],
            ok_actions=[self._topic_arn],
        )
