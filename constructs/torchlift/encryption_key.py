"""EncryptionKey: the deployment's own key, and the services that may use it on our behalf."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

WAITING_DAYS = 7
"""Shortest time that KMS lets a deleted key wait."""


class EncryptionKey(Construct):
    """A customer key with yearly rotation for the bucket, images, logs, the alarm topic and endpoint volumes.

    Roles get what they need in their own policies. Services that act without a role of ours are admitted here: an
    alarm on a topic whose key does not admit CloudWatch stays silent, and nothing says so.
    """

    def __init__(self, scope: Construct, id: str, *, description: str, removal_policy: RemovalPolicy) -> None:
        """Declare the key; :attr:`key` is what other constructs take."""
        super().__init__(scope, id)
        self.key = kms.Key(
            self,
            "Key",
            description=description,
            enable_key_rotation=True,
            pending_window=Duration.days(WAITING_DAYS),
            removal_policy=removal_policy,
        )
        account = Stack.of(self).account
        for service in ("cloudwatch.amazonaws.com", "budgets.amazonaws.com"):
            self._admit(service, conditions={"StringEquals": {"aws:SourceAccount": account}})
        # EventBridge names no source account when it uses a topic's key.
        self._admit("events.amazonaws.com", conditions=None)
        self._admit_logs()

    def _admit(self, service: str, *, conditions: dict[str, object] | None) -> None:
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(service)],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],
                conditions=conditions,
            )
        )

    def _admit_logs(self) -> None:
        stack = Stack.of(self)
        groups = f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:*"
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
                actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
                resources=["*"],
                conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
            )
        )
