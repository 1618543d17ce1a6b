"""How AWS services are reached from private subnets: S3 always by gateway, the rest by interface if wanted."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

INTERFACES = (
    "autoscaling",
    "cloudformation",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "kms",
    "logs",
    "monitoring",
    "sagemaker.api",
    "sagemaker.runtime",
    "ssm",
    "ssmmessages",
    "sts",
)
"""What our instances and SageMaker's interfaces call, without any way to the internet."""
SECRETS = "secretsmanager"
"""Called by the hosts of question answering when requests must bring a token."""


class GatewayEndpoint(Construct):
    """S3 inside AWS's network. Without a policy: wait-condition signals and ECR layers are S3 objects too."""

    def __init__(self, scope: Construct, id: str, *, vpc_id: str, route_table_ids: Sequence[str]) -> None:
        """Declare the endpoint and its routes."""
        super().__init__(scope, id)
        ec2.CfnVPCEndpoint(
            self,
            "S3",
            vpc_id=vpc_id,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{Stack.of(self).region}.s3",
            route_table_ids=list(route_table_ids),
        )


class InterfaceEndpoints(Construct):
    """One interface endpoint a service, in every zone, reachable from the VPC over HTTPS."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        vpc_id: str,
        cidr: str,
        subnet_ids: Sequence[str],
        more: Sequence[str] = (),
    ) -> None:
        """Declare the security group and the endpoints.

        :param cidr: the VPC's address range
        :param more: services that only some deployments call
        """
        super().__init__(scope, id)
        group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=vpc,
            description="HTTPS from the VPC to AWS services",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.tcp(443), "HTTPS from the VPC")
        for service in (*INTERFACES, *more):
            ec2.CfnVPCEndpoint(
                self,
                "".join(part.capitalize() for part in service.split(".")),
                vpc_id=vpc_id,
                vpc_endpoint_type="Interface",
                service_name=f"com.amazonaws.{Stack.of(self).region}.{service}",
                private_dns_enabled=True,
                subnet_ids=list(subnet_ids),
                security_group_ids=[group.security_group_id],
            )
