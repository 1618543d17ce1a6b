"""InterfaceDrain: nothing below an endpoint goes before SageMaker's network interfaces are gone."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from torchlift import permissions
from torchlift.handler_function import HandlerFunction


class InterfaceDrain(Construct):
    """Holds up the deletion of its stack until a security group is empty.

    What makes interfaces (models, endpoints) depends on it; it depends on what SageMaker needs to remove them (the
    execution role with its policy). CloudFormation deletes in the opposite order.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        security_group: ec2.ISecurityGroup,
        key: kms.IKey,
        log_retention: logs.RetentionDays,
    ) -> None:
        """Declare the function and the resource that runs it.

        :param security_group: of endpoints of this stack and of nothing else; it belongs to another stack
        """
        super().__init__(scope, id)
        function = HandlerFunction(
            self,
            "Drain",
            handler="drain_interfaces",
            description="Waits until SageMaker has removed the network interfaces of deleted endpoints",
            log_retention=log_retention,
            key=key,
            # Lambda's limit: interfaces go within minutes, but AWS promises no time.
            timeout=Duration.minutes(15),
        )
        permissions.allow(
            function.role,
            actions=["ec2:DescribeNetworkInterfaces"],
            resources=["*"],
            why="Describing supports no resource-level permissions",
        )
        drained = CustomResource(
            self,
            "Interfaces",
            resource_type="Custom::DrainInterfaces",
            service_token=function.arn,
            service_timeout=Duration.minutes(20),
            properties={"SecurityGroupId": security_group.security_group_id},
        )
        drained.node.add_dependency(function)
