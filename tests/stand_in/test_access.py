"""Who may do what: IAM's evaluation, the permissions that a call needs, and the record of calls."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from stand_in.access.needs import ARNS, UnknownCall, needs
from stand_in.access.operations import Request, operation
from stand_in.access.policies import Need, UnknownCondition, allowed
from stand_in.access.record import Record
from tests.deploy.permissions import Permission, Spare, needless, refused, spare_list, stable, unexplained, unused

READ = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/a/*"}
LIST = {
    "Effect": "Allow",
    "Action": ["s3:List*"],
    "Resource": "arn:aws:s3:::bucket",
    "Condition": {"StringLike": {"s3:prefix": "a/*"}},
}
TLS = {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}


def may(action: str, resource: str, *statements: dict[str, Any], **context: str) -> bool:
    given = {name.replace("_", ":"): value for name, value in context.items()}
    return allowed(statements, Need(action=action, resource=resource, context=given))


def test_an_action_on_a_resource() -> None:
    assert may("s3:GetObject", "arn:aws:s3:::bucket/a/b", READ)
    assert may("S3:getobject", "arn:aws:s3:::bucket/a/b/c", READ)
    assert not may("s3:PutObject", "arn:aws:s3:::bucket/a/b", READ)
    assert not may("s3:GetObject", "arn:aws:s3:::bucket/b", READ)
    assert not may("s3:GetObject", "arn:aws:s3:::bucket/a", READ)
    assert not may("s3:GetObject", "arn:aws:s3:::bucket/a/b")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("a*c", "abbc", True), ("a?c", "abc", True), ("a?c", "ac", False), ("a.c", "abc", False), ("[a]", "a", False)],
)
def test_wildcards(pattern: str, text: str, matches: bool) -> None:
    assert may("x:Y", text, {"Effect": "Allow", "Action": "*", "Resource": pattern}) is matches


def test_a_deny_wins_wherever_it_stands() -> None:
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    assert not may("s3:GetObject", "arn:aws:s3:::bucket/a/b", READ, deny)
    assert not may("s3:GetObject", "arn:aws:s3:::bucket/a/b", deny, READ)
    assert may("s3:GetObject", "arn:aws:s3:::bucket/a/b", READ, TLS, aws_SecureTransport="true")
    assert not may("s3:GetObject", "arn:aws:s3:::bucket/a/b", READ, TLS, aws_SecureTransport="false")


def test_conditions_need_their_key() -> None:
    assert may("s3:ListBucket", "arn:aws:s3:::bucket", LIST, s3_prefix="a/b")
    assert not may("s3:ListBucket", "arn:aws:s3:::bucket", LIST, s3_prefix="b")
    assert not may("s3:ListBucket", "arn:aws:s3:::bucket", LIST)
    if_exists = {**LIST, "Condition": {"StringEqualsIfExists": {"s3:prefix": "a"}}}
    assert may("s3:ListBucket", "arn:aws:s3:::bucket", if_exists)
    assert not may("s3:ListBucket", "arn:aws:s3:::bucket", if_exists, s3_prefix="b")
    unless = {**LIST, "Condition": {"StringNotEquals": {"s3:prefix": ["a", "b"]}}}
    assert may("s3:ListBucket", "arn:aws:s3:::bucket", unless, s3_prefix="c")
    assert not may("s3:ListBucket", "arn:aws:s3:::bucket", unless, s3_prefix="b")


def test_what_is_not_known_is_an_error() -> None:
    with pytest.raises(UnknownCondition, match="DateGreaterThan"):
        may(
            "s3:ListBucket", "arn:aws:s3:::bucket", {**LIST, "Condition": {"DateGreaterThan": {"aws:CurrentTime": "x"}}}
        )


def test_not_action_and_not_resource() -> None:
    rest = {"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:s3:::secret/*"}
    assert may("s3:GetObject", "arn:aws:s3:::bucket/a", rest)
    assert not may("iam:PassRole", "arn:aws:s3:::bucket/a", rest)
    assert not may("s3:GetObject", "arn:aws:s3:::secret/a", rest)


def s3(method: str, path: str, query: str = "", body: bytes = b"", **headers: str) -> Request:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(service="s3", method=method, path=path, query=query, headers=given, body=body)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (s3("GET", "/b", "list-type=2&prefix=a%2F"), "ListObjectsV2"),
        (s3("GET", "/b/", "versions&prefix="), "ListObjectVersions"),
        (s3("GET", "/b", "uploads"), "ListMultipartUploads"),
        (s3("HEAD", "/b"), "HeadBucket"),
        (s3("HEAD", "/b/k/l"), "HeadObject"),
        (s3("PUT", "/b/k"), "PutObject"),
        (s3("PUT", "/b/k", x_amz_copy_source="/c/k"), "CopyObject"),
        (s3("POST", "/b/k", "uploads"), "CreateMultipartUpload"),
        (s3("PUT", "/b/k", "uploadId=1&partNumber=2"), "UploadPart"),
        (s3("POST", "/b/k", "uploadId=1"), "CompleteMultipartUpload"),
        (s3("DELETE", "/b/k", "uploadId=1"), "AbortMultipartUpload"),
        (s3("GET", "/b/k", "tagging"), "GetObjectTagging"),
        (s3("POST", "/b", "delete"), "DeleteObjects"),
        (
            Request(service="sagemaker", method="POST", path="/endpoints/e/invocations", query="", headers={}),
            "InvokeEndpoint",
        ),
        (
            Request(service="sns", method="POST", path="/", query="", headers={}, body=b"Action=Publish&TopicArn=t"),
            "Publish",
        ),
        (
            Request(service="ecr", method="POST", path="/", query="", headers={"X-Amz-Target": "Amazon_v1.PutImage"}),
            "PutImage",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_which_operation_a_request_is(request_: Request, name: str) -> None:
    assert operation(request_).name == name


KEY = "arn:aws:kms:eu-west-1:123456789012:key/k"
STACK = "arn:aws:cloudformation:eu-west-1:123456789012:stack/a-stack/6d4a"


def needed(request: Request, *, key: str | None = None) -> list[tuple[str, str]]:
    found = needs(
        request,
        region="eu-west-1",
        account="123456789012",
        key_of=lambda *_: key,
        group_of=lambda _: "a-group",
        stack_of={"a-stack": STACK}.get,
    )
    return [(need.action, need.resource) for need in found]


def called(service: str, action: str, **parameters: Any) -> Request:
    headers = {"X-Amz-Target": f"Some.{action}"}
    body = json.dumps(parameters).encode()
    return Request(service=service, method="POST", path="/", query="", headers=headers, body=body)


def test_the_slash_of_a_log_group_stays_and_that_of_a_parameter_goes() -> None:
    """As IAM's ARNs of the two have it."""
    put = called("logs", "PutLogEvents", logGroupName="/torchlift/a", logStreamName="b")
    assert needed(put)[0][1] == "arn:aws:logs:eu-west-1:123456789012:log-group:/torchlift/a:log-stream:b"
    (read,) = needed(called("ssm", "GetParameter", Name="/torchlift/a"))
    assert read[1] == "arn:aws:ssm:eu-west-1:123456789012:parameter/torchlift/a"


def test_a_stack_is_named_by_its_id() -> None:
    body = b"Action=SignalResource&StackName=a-stack&LogicalResourceId=Group&UniqueId=i-1&Status=SUCCESS"
    signal = Request(service="cloudformation", method="POST", path="/", query="", headers={}, body=body)
    assert needed(signal) == [("cloudformation:SignalResource", STACK)]


def test_reading_what_a_customers_key_encrypts_needs_the_key() -> None:
    assert needed(s3("GET", "/b/k")) == [("s3:GetObject", "arn:aws:s3:::b/k")]
    assert needed(s3("GET", "/b/k"), key=KEY) == [("s3:GetObject", "arn:aws:s3:::b/k"), ("kms:Decrypt", KEY)]
    assert needed(s3("HEAD", "/b/k"), key=KEY) == [("s3:GetObject", "arn:aws:s3:::b/k")]
    part = s3("PUT", "/b/k", "uploadId=1&partNumber=2")
    assert [action for action, _ in needed(part, key=KEY)] == ["s3:PutObject", "kms:GenerateDataKey", "kms:Decrypt"]


def test_a_copy_reads_its_source() -> None:
    copy = s3("PUT", "/b/k", x_amz_copy_source="/c/a%20b")
    assert needed(copy) == [("s3:PutObject", "arn:aws:s3:::b/k"), ("s3:GetObject", "arn:aws:s3:::c/a b")]


def test_versions_have_actions_of_their_own() -> None:
    assert needed(s3("DELETE", "/b/k", "versionId=1")) == [("s3:DeleteObjectVersion", "arn:aws:s3:::b/k")]
    body = b"<Delete><Object><Key>a</Key></Object><Object><Key>b</Key><VersionId>1</VersionId></Object></Delete>"
    assert needed(s3("POST", "/b", "delete", body)) == [
        ("s3:DeleteObject", "arn:aws:s3:::b/a"),
        ("s3:DeleteObject", "arn:aws:s3:::b/b"),
        ("s3:DeleteObjectVersion", "arn:aws:s3:::b/b"),
    ]


def test_calls_of_other_services() -> None:
    where = "eu-west-1:123456789012"
    assert needed(called("ecr", "BatchGetImage", repositoryName="r", registryId="7")) == [
        ("ecr:BatchGetImage", "arn:aws:ecr:eu-west-1:7:repository/r")
    ]
    assert needed(called("codebuild", "BatchGetBuilds", ids=["p:1", f"arn:aws:codebuild:{where}:build/q:2"])) == [
        ("codebuild:BatchGetBuilds", f"arn:aws:codebuild:{where}:project/p"),
        ("codebuild:BatchGetBuilds", f"arn:aws:codebuild:{where}:project/q"),
    ]
    assert needed(called("autoscaling", "TerminateInstanceInAutoScalingGroup", InstanceId="i-1")) == [
        (
            "autoscaling:TerminateInstanceInAutoScalingGroup",
            f"arn:aws:autoscaling:{where}:autoScalingGroup:0:autoScalingGroupName/a-group",
        )
    ]
    assert needed(called("ssm", "GetParameter", Name="/a/b")) == [
        ("ssm:GetParameter", f"arn:aws:ssm:{where}:parameter/a/b")
    ]
    assert needed(called("sns", "Publish", TopicArn="arn:topic"), key=KEY) == [
        ("sns:Publish", "arn:topic"),
        ("kms:GenerateDataKey", KEY),
        ("kms:Decrypt", KEY),
    ]
    assert needed(called("monitoring", "PutMetricData")) == [("cloudwatch:PutMetricData", "*")]
    assert needed(called("sts", "GetCallerIdentity")) == []


def test_a_call_that_is_not_written_down_is_an_error() -> None:
    with pytest.raises(UnknownCall, match=r"iam:CreateUser has no resource in stand_in/access/needs\.py"):
        needed(called("iam", "CreateUser", UserName="u"))
    with pytest.raises(UnknownCall, match="no known operation"):
        needed(s3("PATCH", "/b/k"))


def test_the_table_of_arns_is_sorted() -> None:
    assert list(ARNS) == sorted(ARNS)


def call(role: str, action: str, resource: str, *, granted: bool = True) -> dict[str, Any]:
    return {
        "role": role,
        "action": action,
        "resource": resource,
        "context": {},
        "allowed": granted,
        "problem": "",
    }


ROLE = "Torchlift-local-Training-Image52140eacefe271651ad42aa1RoleAF2A0420-u9epoflkiqa2"
ACCESS: dict[str, Any] = {
    "roles": {
        ROLE: [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": ["arn:aws:s3:::b/*"]}]
    },
    "calls": [call(ROLE, "s3:GetObject", "arn:aws:s3:::b/k")],
}


def test_what_is_never_used_needs_a_reason_and_what_is_used_none() -> None:
    spare = unused(ACCESS)
    assert spare == {Permission("ImageRole", "s3:PutObject", "s3:b/*")}
    entry = Spare(roles="Image*", actions=("s3:PutObject",), resources="s3:b/*", reason="some reason")
    assert unexplained(spare, []) == ["ImageRole: s3:PutObject on s3:b/*"]
    assert unexplained(spare, [entry]) == needless(spare, [entry]) == []
    used = Spare(roles="Image*", actions=("s3:GetObject",), resources="*", reason="some reason")
    assert needless(spare, [used]) == ["Image*: s3:GetObject on *"]
    assert (
        needless(spare, [Spare(roles="*", actions=("x:Y",), resources="*", reason="by timing", sometimes=True)]) == []
    )
    assert refused(ACCESS) == []
    assert len(refused({"calls": [call("r", "s3:PutObject", "x", granted=False)]})) == 1


def test_names_without_what_is_made_up() -> None:
    key = "arn:aws:kms:us-west-2:123456789012:key/5c5fff70-98b1-487b-9c63-aa5b3a33528e"
    bucket = "arn:aws:s3:::torchlift-local-foundation-artifactsbucket88671897-5dm74qw6erpv/weights/df350c87deb20009/*"
    assert stable(key) == "kms:key/<id>"
    assert stable(bucket) == "s3:torchlift-local-foundation-artifactsbucket/weights/<job>/*"


def test_every_entry_of_the_list_has_a_reason() -> None:
    assert all(len(entry.reason) >= 20 for entry in spare_list())


def test_a_statement_that_an_update_took_away_still_counts_as_used() -> None:
    record = Record(threading.RLock(), stack_of=lambda *_: None)
    old, new = {**READ, "Resource": "arn:aws:s3:::old-1/*"}, {**READ, "Resource": "arn:aws:s3:::old-2/*"}
    record._remember("role", [old])
    record._remember("role", [old, new])
    record._remember("role", [new])
    assert record.page("")["roles"]["role"] == [old, new]
