"""empty_bucket and close_default_group."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.handlers.conftest import Context
from tests.handlers.events import request
from tests.support.receiver import Receiver
from torchlift.handlers.close_default_group import handler as close_default_group
from torchlift.handlers.empty_bucket import handler as empty_bucket


def left(bucket: str) -> int:
    s3: Any = boto3.client("s3")
    page = s3.list_object_versions(Bucket=bucket)
    uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return len(page.get("Versions", [])) + len(page.get("DeleteMarkers", [])) + len(uploads)


@pytest.fixture(autouse=True)
def status(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stack's status, last entry; it is being destroyed unless a test says otherwise."""
    known = ["DELETE_IN_PROGRESS"]

    class CloudFormation:
        def describe_stacks(self, StackName: str) -> dict[str, Any]:
            assert StackName == request("Delete", "")["StackId"]
            return {"Stacks": [{"StackStatus": known[-1]}]}

    real = boto3.client
    monkeypatch.setattr(
        "boto3.client", lambda name, **more: CloudFormation() if name == "cloudformation" else real(name, **more)
    )
    return known


@pytest.fixture
def full(bucket: str) -> str:
    """More objects than fit a page, old versions, delete markers and an unfinished upload."""
    s3: Any = boto3.client("s3")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for number in range(1005):
        s3.put_object(Bucket=bucket, Key=f"inputs/{number}", Body=b"")
    for _ in range(3):
        s3.put_object(Bucket=bucket, Key="weights/model", Body=b"x")
        s3.delete_object(Bucket=bucket, Key="weights/model")
    s3.create_multipart_upload(Bucket=bucket, Key="tmp/part")
    return bucket


def test_everything_goes(full: str, receiver: Receiver, context: Context) -> None:
    assert left(full) >= 1000
    empty_bucket.handle(request("Delete", receiver.url, BucketName=full), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS"
    assert left(full) == 0
    boto3.client("s3").delete_bucket(Bucket=full)


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_only_deletion_empties(kind: str, bucket: str, receiver: Receiver, context: Context) -> None:
    boto3.client("s3").put_object(Bucket=bucket, Key="a", Body=b"x")
    empty_bucket.handle(request(kind, receiver.url, BucketName=bucket), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS"
    assert left(bucket) == 1


@pytest.mark.parametrize(
    ("now", "objects"),
    [
        ("DELETE_IN_PROGRESS", 0),
        ("ROLLBACK_IN_PROGRESS", 0),
        # `ephemeral` went from true to false, or an update to true failed.
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", 1),
        ("UPDATE_ROLLBACK_IN_PROGRESS", 1),
        ("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", 1),
    ],
)
def test_a_stack_that_lives_on_keeps_its_data(
    now: str, objects: int, bucket: str, status: list[str], receiver: Receiver, context: Context
) -> None:
    status.append(now)
    boto3.client("s3").put_object(Bucket=bucket, Key="weights/model", Body=b"x")
    empty_bucket.handle(request("Delete", receiver.url, BucketName=bucket), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS"
    assert left(bucket) == objects


def test_a_bucket_that_is_gone_is_empty(aws: None, receiver: Receiver, context: Context) -> None:
    empty_bucket.handle(request("Delete", receiver.url, BucketName="no-such-bucket"), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS"


def test_out_of_time_is_told(bucket: str, receiver: Receiver) -> None:
    boto3.client("s3").put_object(Bucket=bucket, Key="a", Body=b"x")
    empty_bucket.handle(request("Delete", receiver.url, BucketName=bucket), Context(remaining_ms=1000))
    assert receiver.bodies[0]["Status"] == "FAILED"
    assert "delete the stack again" in receiver.bodies[0]["Reason"]


def test_a_refused_object_is_told(
    bucket: str, receiver: Receiver, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3: Any = boto3.client("s3")
    s3.put_object(Bucket=bucket, Key="held", Body=b"x")
    refused = {"Errors": [{"Key": "held", "Code": "AccessDenied"}]}
    monkeypatch.setattr(s3, "delete_objects", lambda **_: refused)
    cloudformation = boto3.client("cloudformation")
    monkeypatch.setattr("boto3.client", lambda name: cloudformation if name == "cloudformation" else s3)
    empty_bucket.handle(request("Delete", receiver.url, BucketName=bucket), context)
    assert receiver.bodies[0]["Reason"].endswith("held: AccessDenied")


@pytest.fixture
def group(aws: None) -> str:
    ec2: Any = boto3.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    (found,) = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["SecurityGroups"]
    ec2.authorize_security_group_ingress(
        GroupId=found["GroupId"],
        IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": found["GroupId"]}]}],
    )
    return str(found["GroupId"])


def rules(group: str) -> int:
    ec2: Any = boto3.client("ec2")
    (found,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    return len(found["IpPermissions"]) + len(found["IpPermissionsEgress"])


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_the_default_group_is_closed_and_stays_so(kind: str, group: str, receiver: Receiver, context: Context) -> None:
    assert rules(group) == 2
    for _ in range(2):
        close_default_group.handle(request(kind, receiver.url, SecurityGroupId=group), context)
    assert [item["Status"] for item in receiver.bodies] == ["SUCCESS", "SUCCESS"]
    assert rules(group) == 0


def test_deletion_opens_nothing(group: str, receiver: Receiver, context: Context) -> None:
    close_default_group.handle(request("Delete", receiver.url, SecurityGroupId=group), context)
    assert receiver.bodies[0]["Status"] == "SUCCESS"
    assert rules(group) == 2


def test_an_unknown_group_is_told(aws: None, receiver: Receiver, context: Context) -> None:
    close_default_group.handle(request("Create", receiver.url, SecurityGroupId="sg-0123456789abcdef0"), context)
    assert receiver.bodies[0]["Status"] == "FAILED"
    assert "InvalidGroup" in receiver.bodies[0]["Reason"]
