"""A call that is not allowed is answered as AWS answers it, does nothing, and is written down."""

from __future__ import annotations

import inspect
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from stand_in.clients import Clients
from stand_in.environment import ACCOUNT, NOBODY
from stand_in.executor.fleet_instance import FleetInstance
from stand_in.executor.instance_run import InstanceRun
from stand_in.executor.jobs import JobRun
from stand_in.executor.modes import Build, Launch
from stand_in.executor.servers import Container
from stand_in.executor.site import Site
from stand_in.session import StandIn, run
from tests.deploy.permissions import refused
from tests.stand_in.conftest import REGION, ROOT, Stacks
from tests.stand_in.functions import TRUST

CALLS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "s3:PutObject": ("s3", "put_object", {"Bucket": "b", "Key": "k", "Body": b"some text"}, "AccessDenied"),
    "ec2:DescribeInstances": ("ec2", "describe_instances", {}, "UnauthorizedOperation"),
    "ecr:GetAuthorizationToken": ("ecr", "get_authorization_token", {}, "AccessDeniedException"),
    "sns:Publish": ("sns", "publish", {"TopicArn": "arn:aws:sns:us-west-2:1:t", "Message": "m"}, "AccessDenied"),
    "cloudformation:DescribeStacks": ("cloudformation", "describe_stacks", {"StackName": "s"}, "AccessDenied"),
    "sagemaker:InvokeEndpoint": (
        "sagemaker-runtime", "invoke_endpoint", {"EndpointName": "e", "Body": b"{}"}, "AccessDeniedException",
    ),
    "cloudwatch:PutMetricData": (
        "cloudwatch", "put_metric_data", {"Namespace": "n", "MetricData": [{"MetricName": "m"}]},
        "AccessDeniedException",
    ),
}  # fmt: skip
"""One call of each protocol, and the code that its error has."""


def recorded(aws: StandIn, role: str) -> list[dict[str, Any]]:
    """The calls of one caller."""
    return [call for call in aws.get("/_torchlift/access")["calls"] if call["role"] == role]


@pytest.mark.parametrize("action", CALLS)
@pytest.mark.parametrize("role", [NOBODY, "a-role-that-is-not-there"])
def test_who_may_do_nothing_is_refused_in_the_services_own_form(aws: StandIn, action: str, role: str) -> None:
    service, method, parameters, code = CALLS[action]
    client = Clients(aws.base_url).get(service, REGION, role=role)
    with pytest.raises(ClientError) as caught:
        getattr(client, method)(**parameters)
    assert caught.value.response["Error"]["Code"] == code
    said = caught.value.response["Error"]["Message"]
    assert f"assumed-role/{role}/stand-in is not authorized to perform: {action} on resource: " in said
    assert [call["allowed"] for call in recorded(aws, role) if call["action"] == action] == [False]


def test_a_program_without_a_role_gets_nothing_done(aws: StandIn, tmp_path: Path) -> None:
    """With the environment that the stand-in gives to whatever it starts, and the real AWS CLI."""
    bucket = f"nobodys-{tmp_path.name.replace('_', '-')}"[:60].rstrip("-")
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    site = Site(base_url=aws.base_url, state_dir=tmp_path, repo_root=ROOT)
    (tmp_path / "file").write_text("some text")
    # In one line: whoever may do nothing may still ask who it is.
    program = f"aws sts get-caller-identity && aws s3 cp file s3://{bucket}/key"
    done = run(
        ["bash", "-c", program], environment=site.environment(REGION, role=""), cwd=tmp_path, log=tmp_path / "log",
        timeout=60,
    )  # fmt: skip
    assert done.returncode != 0 and ACCOUNT in done.stdout
    assert f"AccessDenied) when calling the PutObject operation: User: arn:aws:sts::{ACCOUNT}" in done.stdout
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    (call,) = [one for one in recorded(aws, NOBODY) if bucket in one["resource"]]
    assert refused({"calls": [call]}) == [f"nobody: s3:PutObject on arn:aws:s3:::{bucket}/key {{}}"]


def test_a_role_may_do_what_its_policies_allow_and_no_more(stacks: Stacks) -> None:
    bucket, aws = stacks.name("shared"), stacks.aws
    policy = {
        "PolicyName": "p",
        "PolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/mine/*"}],
        },
    }
    role = {"AssumeRolePolicyDocument": TRUST, "Policies": [policy]}
    stacks.create("roles", {"Role": {"Type": "AWS::IAM::Role", "Properties": role}})
    name = stacks.resources("roles")["Role"]
    admin, limited = aws.client("s3"), Clients(aws.base_url).get("s3", REGION, role=name)
    admin.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    for key in ("mine/a", "theirs/a"):
        admin.put_object(Bucket=bucket, Key=key, Body=b"some text")
    assert limited.get_object(Bucket=bucket, Key="mine/a")["Body"].read() == b"some text"
    with pytest.raises(ClientError, match="no identity-based policy allows the s3:GetObject action"):
        limited.get_object(Bucket=bucket, Key="theirs/a")
    with pytest.raises(ClientError, match="403"):
        limited.head_object(Bucket=bucket, Key="theirs/a")
    # The connection of a refused upload can be used again.
    with pytest.raises(ClientError, match="AccessDenied"):
        limited.put_object(Bucket=bucket, Key="mine/a", Body=b"other text" * 1000)
    assert limited.get_object(Bucket=bucket, Key="mine/a")["Body"].read() == b"some text"
    assert {(call["action"], call["allowed"]) for call in recorded(aws, name)} == {
        ("s3:GetObject", True), ("s3:GetObject", False), ("s3:PutObject", False),
    }  # fmt: skip


def test_a_key_that_nobody_gave_out_and_a_request_without_one_are_refused(aws: StandIn) -> None:
    stranger = boto3.client(
        "s3", endpoint_url=aws.base_url, region_name=REGION, aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="anything",
    )  # fmt: skip
    with pytest.raises(ClientError, match=r"AccessDenied.* no role has the access key AKIAIOSFODNN7EXAMPLE"):
        stranger.list_buckets()
    with pytest.raises(urllib.error.HTTPError, match="403") as caught:
        urllib.request.urlopen(f"{aws.base_url}/a-bucket/a-key", timeout=10)
    assert b"<Code>AccessDenied</Code>" in caught.value.read()
    assert [call["allowed"] for call in recorded(aws, "AKIAIOSFODNN7EXAMPLE")] == [False]
    assert "unsigned: ?:? on /a-bucket/a-key {} it is not signed" in refused({"calls": recorded(aws, "unsigned")})


@pytest.mark.parametrize(("role", "may"), [("cdk-hnb659fds-deploy-role", True), ("another", False)])
def test_who_assumed_a_role_may_do_what_the_role_may(aws: StandIn, role: str, may: bool) -> None:
    """The CDK CLI assumes the bootstrap's, which are not ours to judge."""
    arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
    got = aws.client("sts").assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    session = boto3.client(
        "ec2", endpoint_url=aws.base_url, region_name=REGION, aws_access_key_id=got["AccessKeyId"],
        aws_secret_access_key=got["SecretAccessKey"], aws_session_token=got["SessionToken"],
    )  # fmt: skip
    if may:
        assert "Reservations" in session.describe_instances()
    else:
        with pytest.raises(ClientError, match="assumed-role/another/stand-in is not authorized"):
            session.describe_instances()


@pytest.mark.parametrize(
    "starts",
    [Build, Launch, Container, JobRun, InstanceRun, FleetInstance, Site.environment, Site.client],
    ids=lambda one: one.__qualname__,
)
def test_nothing_is_started_without_saying_its_role(starts: Callable[..., Any]) -> None:
    """Jobs, instances, hosts and servers of both modes, and what all of them make their calls with."""
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(starts).parameters
    assert parameters["role"].default is inspect.Parameter.empty
    assert parameters["role"].kind is inspect.Parameter.KEYWORD_ONLY
