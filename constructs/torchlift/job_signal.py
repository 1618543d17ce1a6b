"""JobSignal: the part of a job that makes CloudFormation wait for it and never hang.

The order matters and is held by dependencies: handle, rule and permission, start, wait. A rule made after the start
could miss the end of a short job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from aws_cdk import CfnWaitCondition, CfnWaitConditionHandle, CustomResource, Duration
from aws_cdk import aws_events as events
from constructs import Construct, IDependable

from torchlift.job_data import JobResult
from torchlift.job_services import JobServices

# The most that CloudFormation allows. It can never be updated, so real deadlines live in the job.
WAIT_SECONDS = "43200"


class JobSignal(Construct):
    """Handle, rule, start and wait condition of one job."""

    def __init__(self, scope: Construct, id: str, *, services: JobServices, job: str, result: JobResult) -> None:
        """Declare the handle; :meth:`run` declares the rest.

        :param scope: a construct whose path carries the job's hash: a handle must never be used twice
        """
        super().__init__(scope, id)
        self._services = services
        self._job = job
        self._result = result
        self._handle = CfnWaitConditionHandle(self, "Handle")

    @property
    def url(self) -> str:
        """Where the job's end is reported, by PUT."""
        return self._handle.ref

    def run(
        self,
        *,
        event_pattern: Mapping[str, object],
        group: str,
        properties: Mapping[str, object],
        after: Sequence[IDependable],
    ) -> CfnWaitCondition:
        """Watch for the job's end, start it, and wait.

        :param event_pattern: which events say that the job ended, in EventBridge's own words
        :param group: the Auto Scaling group of an instance job, else empty
        :param properties: properties of the ``Custom::StartJob`` resource besides Result and Handle
        :param after: what must exist before the job starts: roles with their policies, the project or the group
        """
        rule = events.CfnRule(
            self,
            "Ended",
            description=f"Reports the end of {self._job}",
            event_pattern=event_pattern,
            targets=[
                events.CfnRule.TargetProperty(
                    id="SignalJob",
                    arn=self._services.signal.arn,
                    input_transformer=events.CfnRule.InputTransformerProperty(input_template=self._target_input(group)),
                )
            ],
        )
        permission = self._services.signal.allow_rule(self, "Permission", rule_arn=rule.attr_arn)
        start = CustomResource(
            self,
            "Start",
            resource_type="Custom::StartJob",
            service_token=self._services.start.arn,
            service_timeout=Duration.minutes(15),
            properties={"Result": self._result.uri, "Handle": self.url, **properties},
        )
        start.node.add_dependency(self._services, rule, permission, *after)
        wait = CfnWaitCondition(self, "Done", count=1, handle=self._handle.ref, timeout=WAIT_SECONDS)
        wait.node.add_dependency(start)
        return wait

    def _target_input(self, group: str) -> str:
        fixed = {"handle": self.url, "job": self._job, "group": group, "result": self._result.uri}
        # The event goes in as JSON, so its placeholder stands outside quotes.
        return json.dumps(fixed)[:-1] + ', "event": <aws.events.event.json>}'
