"""Which permissions a call needs: IAM's actions are not the API's operations, and one call may need several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from stand_in.access.operations import Operation, Request, operation
from stand_in.access.policies import Need

PREFIXES = {"monitoring": "cloudwatch"}
"""Where IAM's name of a service is not that of its signatures."""
FREE = {("sts", "GetCallerIdentity")}
"""Calls that need no permission."""
S3_ACTIONS = {
    "HeadObject": "GetObject",
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "UploadPartCopy": "PutObject",
    "DeleteObjects": "DeleteObject",
}
"""From "Required permissions for Amazon S3 API operations" in S3's user guide; the others are named as their call."""
S3_KEY_ACTIONS = {
    "GetObject": ("Decrypt",),
    "PutObject": ("GenerateDataKey",),
    "CopyObject": ("GenerateDataKey",),
    # S3 reads the parts back when it joins them.
    "CreateMultipartUpload": ("GenerateDataKey", "Decrypt"),
    "UploadPart": ("GenerateDataKey", "Decrypt"),
    "UploadPartCopy": ("GenerateDataKey", "Decrypt"),
    "CompleteMultipartUpload": ("Decrypt",),
}
ARNS: dict[str, str] = {
    "autoscaling:SetDesiredCapacity": "autoscaling::autoScalingGroup:0:autoScalingGroupName/{AutoScalingGroupName}",
    "autoscaling:TerminateInstanceInAutoScalingGroup": "autoscaling::autoScalingGroup:0:autoScalingGroupName/{group}",
    "cloudformation:DescribeStacks": "cloudformation::stack/{StackName}/0",
    "cloudformation:SignalResource": "cloudformation::stack/{StackName}/0",
    "codebuild:StartBuild": "codebuild::project/{projectName}",
    "ec2:RevokeSecurityGroupEgress": "ec2::security-group/{GroupId}",
    "ec2:RevokeSecurityGroupIngress": "ec2::security-group/{GroupId}",
    "ecr:BatchCheckLayerAvailability": "ecr::repository/{repositoryName}",
    "ecr:BatchGetImage": "ecr::repository/{repositoryName}",
    "ecr:CompleteLayerUpload": "ecr::repository/{repositoryName}",
    "ecr:DescribeImages": "ecr::repository/{repositoryName}",
    "ecr:GetDownloadUrlForLayer": "ecr::repository/{repositoryName}",
    "ecr:InitiateLayerUpload": "ecr::repository/{repositoryName}",
    "ecr:PutImage": "ecr::repository/{repositoryName}",
    "ecr:UploadLayerPart": "ecr::repository/{repositoryName}",
    "logs:CreateLogStream": "logs::log-group:{logGroupName}:log-stream:{logStreamName}",
    "logs:PutLogEvents": "logs::log-group:{logGroupName}:log-stream:{logStreamName}",
    "sagemaker:DescribeEndpoint": "sagemaker::endpoint/{EndpointName}",
    "sagemaker:InvokeEndpoint": "sagemaker::endpoint/{EndpointName}",
    "secretsmanager:GetSecretValue": "{SecretId}",
    "sns:Publish": "{TopicArn}",
    "ssm:GetParameter": "ssm::parameter/{Name}",
}
"""{action: the ARN after `arn:aws:`, with region and account where `::` stands}."""
ANY = re.compile(r"ec2:Describe\w+|autoscaling:Describe\w+|ecr:GetAuthorizationToken|cloudwatch:PutMetricData")
"""Actions that know no resource."""

Keys = Callable[[str, str], str | None]
"""(service, name of a bucket or topic) → ARN of the key that encrypts it, or None."""
Groups = Callable[[str], str]
"""Instance id → name of its Auto Scaling group."""
Stacks = Callable[[str], str | None]
"""Name of a stack → its id, or None when there is no such stack."""


class UnknownCall(LookupError):
    """A call whose permission is not written down; the message says where to do it."""


def needs(
    request: Request, *, region: str, account: str, key_of: Keys, group_of: Groups, stack_of: Stacks
) -> list[Need]:
    """The permissions that a request needs. Raises UnknownCall."""
    done = operation(request)
    if (request.service, done.name) in FREE:
        return []
    if request.service == "s3":
        return list(_s3(request, done, region, key_of))
    return list(_others(request.service, done, region, account, key_of, group_of, stack_of))


def _s3(request: Request, done: Operation, region: str, key_of: Keys) -> Iterator[Need]:
    bucket, key = done.parameters.get("Bucket", ""), done.parameters.get("Key", "")
    if not bucket:
        raise UnknownCall(f"{request.method} {request.path}?{request.query} of S3 is no known operation")
    arn = f"arn:aws:s3:::{bucket}"
    action = S3_ACTIONS.get(done.name, done.name)
    if done.name == "DeleteObjects":
        for item, version in _deleted(request.body):
            yield Need(action="s3:DeleteObject", resource=f"{arn}/{item}")
            if version:
                yield Need(action="s3:DeleteObjectVersion", resource=f"{arn}/{item}")
        return
    if key:
        version = "Version" if done.parameters.get("VersionId") and action in ("GetObject", "DeleteObject") else ""
        yield Need(action=f"s3:{action}{version}", resource=f"{arn}/{key}")
    else:
        prefix = {"s3:prefix": done.parameters["Prefix"]} if "Prefix" in done.parameters else {}
        yield Need(action=f"s3:{action}", resource=arn, context=prefix)
    source = unquote(done.parameters.get("CopySource", "").partition("?")[0]).lstrip("/")
    if source:
        yield Need(action="s3:GetObject", resource=f"arn:aws:s3:::{source}")
        yield from _key("s3", source.partition("/")[0], ("Decrypt",), region, key_of)
    yield from _key("s3", bucket, S3_KEY_ACTIONS.get(done.name, ()), region, key_of)


def _others(
    service: str, done: Operation, region: str, account: str, key_of: Keys, group_of: Groups, stack_of: Stacks
) -> Iterator[Need]:
    action = f"{PREFIXES.get(service, service)}:{done.name}"
    parameters: dict[str, Any] = dict(done.parameters)
    if action == "codebuild:BatchGetBuilds":
        for build in parameters["ids"]:
            project = build.rpartition("build/")[2].partition(":")[0]
            yield Need(action=action, resource=f"arn:aws:codebuild:{region}:{account}:project/{project}")
        return
    if ANY.fullmatch(action):
        yield Need(action=action, resource="*")
        return
    if action not in ARNS:
        raise UnknownCall(f"{action} has no resource in stand_in/access/needs.py")
    if action == "autoscaling:TerminateInstanceInAutoScalingGroup":
        parameters["group"] = group_of(parameters["InstanceId"])
    if service == "ssm":
        # The name of a parameter begins with a slash, which its ARN has already; a log group's ARN keeps its own.
        parameters["Name"] = parameters["Name"].lstrip("/")
    resource = ARNS[action].format_map(_Lenient(parameters))
    if service == "cloudformation":
        # Policies name a stack by its id, which no name tells.
        name = str(parameters.get("StackName", ""))
        resource = name if name.startswith("arn:") else stack_of(name) or resource
    if "::" in resource:
        kind, _, rest = resource.partition("::")
        resource = f"arn:aws:{kind}:{region}:{parameters.get('registryId', account)}:{rest}"
    yield Need(action=action, resource=resource)
    if service == "sns":
        yield from _key("sns", resource, ("GenerateDataKey", "Decrypt"), region, key_of)


def _key(service: str, name: str, names: tuple[str, ...], region: str, key_of: Keys) -> Iterator[Need]:
    """What a service does with a customer's key it does with the caller's permissions."""
    key = key_of(service, name) if names else None
    for one in names if key else ():
        context = {"kms:ViaService": f"{service}.{region}.amazonaws.com"}
        yield Need(action=f"kms:{one}", resource=str(key), context=context)


def _deleted(body: bytes) -> Iterator[tuple[str, str]]:
    """(key, version or nothing) of a DeleteObjects request."""
    for item in ElementTree.fromstring(body):
        if item.tag.endswith("Object"):
            fields = {child.tag.rpartition("}")[2]: child.text or "" for child in item}
            yield fields["Key"], fields.get("VersionId", "")


class _Lenient(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return f"<no {name}>"
