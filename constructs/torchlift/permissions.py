"""Permissions written out: prefixes, not buckets; single repositories, not registries; no managed policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from aws_cdk import Aws, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

WILDCARD_METADATA: Final = "torchlift:wildcard"
"""Metadata of a role: one entry for each wildcard in a resource of its policy, with the reason."""

_BELOW_PREFIX: Final = "Everything below one prefix, whose object names only the job knows"
_REGISTRY_TOKEN: Final = "ecr:GetAuthorizationToken supports no resource-level permissions"  # noqa: S105 - no secret
GROUP_ID: Final = "A group's ARN holds a random id beside its name, and the name is literal and ours alone"


def allow(
    grantee: iam.IGrantable,
    *,
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: dict[str, object] | None = None,
    why: str | None = None,
) -> None:
    """Add one Allow statement to the grantee's own policy.

    :param why: the reason for wildcards in ``resources``; it goes into the assembly's metadata, where the security
        rules (:mod:`torchlift.nag`) look for it
    :raises ValueError: an action holds a wildcard, or a resource holds one without a reason
    """
    if any("*" in action for action in actions):
        raise ValueError(f"{', '.join(actions)}: actions are written out")
    for resource in resources:
        if "*" not in resource:
            continue
        if why is None:
            raise ValueError(f"'{resource}': a wildcard needs a reason")
        role = cast(Construct, grantee.grant_principal)
        role.node.add_metadata(WILDCARD_METADATA, {"resource": resource, "reason": why})
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
    )


def read_object(grantee: iam.IGrantable, *, bucket: s3.IBucket, key: str) -> None:
    """Allow reading one object."""
    allow(grantee, actions=["s3:GetObject"], resources=[bucket.arn_for_objects(key)])


def list_prefix(grantee: iam.IGrantable, *, bucket: s3.IBucket, prefix: str) -> None:
    """Allow asking which objects lie under ``prefix`` (ends in a slash)."""
    allow(
        grantee,
        actions=["s3:ListBucket"],
        resources=[bucket.bucket_arn],
        conditions={"StringLike": {"s3:prefix": f"{prefix}*"}},
    )


def read_prefix(grantee: iam.IGrantable, *, bucket: s3.IBucket, prefix: str, key: kms.IKey | None = None) -> None:
    """Allow listing and reading everything under ``prefix`` (ends in a slash)."""
    list_prefix(grantee, bucket=bucket, prefix=prefix)
    allow(grantee, actions=["s3:GetObject"], resources=[bucket.arn_for_objects(f"{prefix}*")], why=_BELOW_PREFIX)
    if key is not None:
        use_key(grantee, key=key, actions=["kms:Decrypt"])


def write_prefix(grantee: iam.IGrantable, *, bucket: s3.IBucket, prefix: str, key: kms.IKey | None = None) -> None:
    """Allow listing, reading, writing and removing everything under ``prefix`` (ends in a slash)."""
    list_prefix(grantee, bucket=bucket, prefix=prefix)
    allow(
        grantee,
        actions=[
            "s3:GetObject",
            # `aws s3 cp` from S3 to S3 copies the tags of whatever is above its multipart threshold of 8 MB.
            "s3:GetObjectTagging",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:AbortMultipartUpload",
            "s3:ListMultipartUploadParts",
        ],
        resources=[bucket.arn_for_objects(f"{prefix}*")],
        why=_BELOW_PREFIX,
    )
    if key is not None:
        # Multipart uploads need Decrypt as well: S3 reads the parts back when it joins them.
        use_key(grantee, key=key, actions=["kms:Decrypt", "kms:GenerateDataKey"])


def use_key(grantee: iam.IGrantable, *, key: kms.IKey, actions: Sequence[str], service: str = "s3") -> None:
    """Allow using ``key``, through one service in this region only."""
    allow(
        grantee,
        actions=actions,
        resources=[key.key_arn],
        conditions={"StringEquals": {"kms:ViaService": f"{service}.{Aws.REGION}.{Aws.URL_SUFFIX}"}},
    )


def publish(grantee: iam.IGrantable, *, topic_arn: str, key: kms.IKey | None = None) -> None:
    """Allow publishing to one topic, which ``key`` encrypts."""
    allow(grantee, actions=["sns:Publish"], resources=[topic_arn])
    if key is not None:
        use_key(grantee, key=key, actions=["kms:Decrypt", "kms:GenerateDataKey"], service="sns")


def write_logs(grantee: iam.IGrantable, *, log_group: logs.ILogGroup) -> None:
    """Allow streams and events in one declared group; never logs:CreateLogGroup."""
    allow(
        grantee,
        actions=["logs:CreateLogStream", "logs:PutLogEvents"],
        resources=[log_group.log_group_arn],
        why="All streams of one group: their names come from the service that writes them",
    )


def pull_image(grantee: iam.IGrantable, *, repository_arns: Sequence[str]) -> None:
    """Allow pulling from the given repositories (the token itself cannot be narrowed)."""
    allow(grantee, actions=["ecr:GetAuthorizationToken"], resources=["*"], why=_REGISTRY_TOKEN)
    allow(
        grantee,
        actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
        resources=repository_arns,
    )


def push_image(grantee: iam.IGrantable, *, repository_arn: str) -> None:
    """Allow pushing to one repository and reading back what was pushed."""
    allow(grantee, actions=["ecr:GetAuthorizationToken"], resources=["*"], why=_REGISTRY_TOKEN)
    allow(
        grantee,
        actions=[
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:CompleteLayerUpload",
            "ecr:DescribeImages",
            "ecr:GetDownloadUrlForLayer",
            "ecr:InitiateLayerUpload",
            "ecr:PutImage",
            "ecr:UploadLayerPart",
        ],
        resources=[repository_arn],
    )


def session_manager(grantee: iam.IGrantable) -> None:
    """Allow the agent on an instance to offer Session Manager sessions: no port is opened."""
    allow(
        grantee,
        actions=[
            "ec2messages:AcknowledgeMessage",
            "ec2messages:DeleteMessage",
            "ec2messages:FailMessage",
            "ec2messages:GetEndpoint",
            "ec2messages:GetMessages",
            "ec2messages:SendReply",
            "ssm:UpdateInstanceInformation",
            "ssmmessages:CreateControlChannel",
            "ssmmessages:CreateDataChannel",
            "ssmmessages:OpenControlChannel",
            "ssmmessages:OpenDataChannel",
        ],
        resources=["*"],
        why="The Session Manager agent's own calls support no resource-level permissions",
    )


def registry_repository_arn(image_uri: str) -> str | None:
    """Return the ARN of the ECR repository that a literal image URI names, or None when it is not in ECR.

    :param image_uri: ``<account>.dkr.ecr.<region>.<suffix>/<repository>:<tag>`` or ``…@<digest>``
    """
    host, _, path = image_uri.partition("/")
    parts = host.split(".")
    if len(parts) < 5 or parts[1:3] != ["dkr", "ecr"]:
        return None
    repository = path.split("@")[0].split(":")[0]
    return f"arn:{Aws.PARTITION}:ecr:{parts[3]}:{parts[0]}:repository/{repository}"


def repository_arn(image_uri: str, repository: ecr.IRepository | None) -> str:
    """Return the ARN of the repository of an image that is either literal or comes with its repository.

    :raises ValueError: neither
    """
    arn = repository.repository_arn if repository else registry_repository_arn(image_uri)
    if arn is None:
        raise ValueError(f"'{image_uri}' is no ECR image: instances pull from ECR only")
    return arn


def this_account_only(scope_stack: Stack, *, source_arn: str | None = None) -> dict[str, object]:
    """Return trust conditions against the confused deputy: only this account (and this resource) may be behind it."""
    conditions: dict[str, object] = {"StringEquals": {"aws:SourceAccount": scope_stack.account}}
    if source_arn is not None:
        conditions["ArnLike"] = {"aws:SourceArn": source_arn}
    return conditions
