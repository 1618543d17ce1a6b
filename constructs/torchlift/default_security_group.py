"""ClosedDefaultGroup: a VPC's default security group, without any rule."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from torchlift import permissions
from torchlift.handler_function import HandlerFunction


class ClosedDefaultGroup(Construct):
    """Takes the rules out of the group that every VPC has and that cannot be removed."""

    def __init__(
        self, scope: Construct, id: str, *, group_id: str, key: kms.IKey, log_retention: logs.RetentionDays
    ) -> None:
        """Declare the function and the resource that runs it.

        :param group_id: the VPC's default security group
        """
        super().__init__(scope, id)
        stack = Stack.of(self)
        function = HandlerFunction(
            self,
            "Close",
            handler="close_default_group",
            description="Takes the rules out of the VPC's default security group",
            log_retention=log_retention,
            key=key,
        )
        permissions.allow(
            function.role,
            actions=["ec2:DescribeSecurityGroups"],
            resources=["*"],
            why="Describing supports no resource-level permissions",
        )
        permissions.allow(
            function.role,
            actions=["ec2:RevokeSecurityGroupIngress", "ec2:RevokeSecurityGroupEgress"],
            resources=[f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}:security-group/{group_id}"],
        )
        closed = CustomResource(
            self,
            "Group",
            resource_type="Custom::CloseDefaultGroup",
            service_token=function.arn,
            service_timeout=Duration.minutes(5),
            properties={"SecurityGroupId": group_id},
        )
        closed.node.add_dependency(function)
