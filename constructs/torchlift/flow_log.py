"""FlowLog: who talked to whom in the VPC."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from torchlift import permissions


class FlowLog(Construct):
    """All traffic of a VPC, accepted and refused, in a declared log group."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc_id: str,
        key: kms.IKey,
        log_retention: logs.RetentionDays,
        removal_policy: RemovalPolicy,
    ) -> None:
        """Declare the group, the role that may write to it and nothing else, and the flow log."""
        super().__init__(scope, id)
        stack = Stack.of(self)
        group = logs.LogGroup(self, "Logs", retention=log_retention, removal_policy=removal_policy, encryption_key=key)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "vpc-flow-logs.amazonaws.com",
                conditions=permissions.this_account_only(
                    stack,
                    source_arn=f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}:vpc-flow-log/*",
                ),
            ),
        )
        permissions.allow(
            role,
            actions=["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"],
            resources=[group.log_group_arn],
        )
        flow_log = ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
        )
        flow_log.node.add_dependency(role, group)
