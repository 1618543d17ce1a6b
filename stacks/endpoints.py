"""What the SageMaker endpoints of all workloads have alike."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from settings import names
from settings.endpoint_models import EndpointUpdate
from torchlift.endpoint_update import UpdatePolicy


def update_policy(wanted: EndpointUpdate) -> UpdatePolicy:
    """The construct's policy, as the settings have it."""
    return UpdatePolicy(
        traffic=wanted.traffic,
        step_percent=wanted.step_percent,
        bake_seconds=wanted.bake_seconds,
        longest_seconds=wanted.longest_seconds,
        auto_rollback=wanted.auto_rollback,
    )


def build_log_group(
    scope: Construct, endpoint_name: str, *, retention: logs.RetentionDays, key: kms.IKey
) -> logs.LogGroup:
    """SageMaker's own name for it. It goes with the endpoint: one that stayed would be in the way later."""
    return logs.LogGroup(
        scope,
        "Logs",
        log_group_name=names.log_group_of_endpoint(endpoint_name),
        retention=retention,
        encryption_key=key,
        removal_policy=RemovalPolicy.DESTROY,
    )
