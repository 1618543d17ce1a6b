"""ExecutionRole: what SageMaker may do for one endpoint, written out."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from torchlift import permissions
from torchlift.endpoint_variants import Capture, ServingImage

_ANY_RESOURCE = (
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
_WHY_ANY_RESOURCE = "Neither look-ups nor the removal of an interface's permission can be narrowed to a resource"
_WHY_INTERFACES = "SageMaker makes network interfaces whose ids nobody knows before"


class ExecutionRole(Construct):
    """Reads one prefix, pulls one repository, logs to one group, and places network interfaces."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        image: ServingImage,
        key: kms.IKey,
        log_groups: str,
        subnets: Sequence[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
        alarm_names: Sequence[str],
        volume_key: kms.IKey | None = None,
        capture: Capture | None = None,
        lists: bool = False,
    ) -> None:
        """Declare the role.

        :param key: encrypts the archives
        :param log_groups: pattern of the names of the groups of this workload's endpoints: while one takes the place of
            another both log
        :param alarm_names: alarms that roll an update back: SageMaker reads them with this role
        :param volume_key: the key of the storage volumes, which EC2 uses by a grant that SageMaker makes
        :param lists: it looks below the prefix for what there is, as a multi-model endpoint does
        """
        super().__init__(scope, id)
        stack = Stack.of(self)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com", conditions=permissions.this_account_only(stack)),
        )
        permissions.allow(
            self.role,
            actions=["s3:GetObject"],
            resources=[image.bucket.arn_for_objects(f"{image.prefix}*")],
            why="All versions of the model lie below this prefix: a new version, or a rollback, changes no role",
        )
        if lists:
            permissions.list_prefix(self.role, bucket=image.bucket, prefix=image.prefix)
        permissions.use_key(self.role, key=key, actions=["kms:Decrypt"])
        permissions.pull_image(self.role, repository_arns=[image.repository.repository_arn])
        permissions.allow(
            self.role,
            actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            resources=[f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:{log_groups}:*"],
            why="The groups of this workload's endpoints, and their streams, whose names SageMaker chooses",
        )
        permissions.allow(
            self.role,
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            why="Metrics have no ARN; the condition narrows them to SageMaker's namespaces",
            conditions={"StringLike": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/*"]}},
        )
        permissions.allow(
            self.role,
            actions=["cloudwatch:DescribeAlarms"],
            resources=[
                f"arn:{stack.partition}:cloudwatch:{stack.region}:{stack.account}:alarm:{name}" for name in alarm_names
            ],
        )
        if volume_key is not None:
            permissions.allow(
                self.role,
                actions=["kms:CreateGrant"],
                resources=[volume_key.key_arn],
                conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
            )
        if capture is not None:
            permissions.allow(
                self.role,
                actions=["s3:PutObject"],
                resources=[capture.bucket.arn_for_objects(f"{capture.prefix}*")],
                why="SageMaker names what it captures by endpoint, variant and hour",
            )
            permissions.use_key(self.role, key=capture.key, actions=["kms:GenerateDataKey"])
        self._allow_interfaces(subnets, security_group)

    def _allow_interfaces(self, subnets: Sequence[ec2.ISubnet], security_group: ec2.ISecurityGroup) -> None:
        stack = Stack.of(self)
        here = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}"
        interfaces = f"{here}:network-interface/*"
        permissions.allow(
            self.role,
            actions=["ec2:CreateNetworkInterface"],
            resources=[
                interfaces,
                f"{here}:security-group/{security_group.security_group_id}",
                *(f"{here}:subnet/{subnet.subnet_id}" for subnet in subnets),
            ],
            why=_WHY_INTERFACES,
        )
        permissions.allow(
            self.role,
            actions=["ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface"],
            resources=[interfaces],
            why=_WHY_INTERFACES,
        )
        permissions.allow(self.role, actions=_ANY_RESOURCE, resources=["*"], why=_WHY_ANY_RESOURCE)
