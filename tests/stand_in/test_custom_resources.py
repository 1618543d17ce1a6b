"""Custom resources: real functions are asked, answer by PUT, and fail in every way that they can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stand_in.conftest import Stacks, parameter
from tests.stand_in.functions import function, upload

CODE = """
def handler(event, context):
    note(event)
    wanted = event["ResourceProperties"]
    if wanted.get("Die") == event["RequestType"]:
        raise RuntimeError("the function died")
    if wanted.get("Fail") == event["RequestType"]:
        answer(event, "FAILED", Reason="it does not work", physical_id=wanted.get("Id", "id-1"))
        return
    if event["RequestType"] == "Delete":
        answer(event, physical_id=event["PhysicalResourceId"])
        return
    answer(event, physical_id=wanted.get("Id", "id-1"), Data={"Said": wanted.get("Say", "nothing")})
"""


class Custom:
    """A stack of one function, and stacks of custom resources that it answers for."""

    def __init__(self, stacks: Stacks) -> None:
        self.stacks = stacks
        self.bucket = upload(stacks, CODE)
        outputs = {"Arn": {"Value": {"Fn::GetAtt": ["Function", "Arn"]}}}
        assert stacks.create("functions", function(self.bucket), Outputs=outputs) == "CREATE_COMPLETE"
        self.arn = stacks.outputs("functions")["Arn"]

    def resource(self, **properties: Any) -> dict[str, Any]:
        return {"Type": "Custom::Thing", "Properties": {"ServiceToken": self.arn, **properties}}

    def requests(self) -> list[dict[str, Any]]:
        """What the function was asked since the last look, oldest first."""
        s3 = self.stacks.aws.client("s3")
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=self.bucket)["Contents"] if one["Key"] != "code.zip"]
        found = [json.loads(s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()) for key in sorted(keys)]
        for key in keys:
            s3.delete_object(Bucket=self.bucket, Key=key)
        return found


@pytest.fixture
def custom(stacks: Stacks) -> Iterator[Custom]:
    made = Custom(stacks)
    yield made
    stacks.clean()
    made.requests()
    s3 = stacks.aws.client("s3")
    s3.delete_object(Bucket=made.bucket, Key="code.zip")
    s3.delete_bucket(Bucket=made.bucket)


def asked(requests: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(one["RequestType"], one.get("PhysicalResourceId")) for one in requests]


def test_a_life(custom: Custom) -> None:
    stacks = custom.stacks
    resources = {"C": custom.resource(Say="hello", Number=3, Flag=True, Nested={"List": [1, False]}, ServiceTimeout=20)}
    assert stacks.create("s", resources, Outputs={"O": {"Value": {"Fn::GetAtt": ["C", "Said"]}}}) == "CREATE_COMPLETE"
    assert stacks.outputs("s") == {"O": "hello"} and stacks.resources("s") == {"C": "id-1"}
    (request,) = custom.requests()
    assert request.pop("ResponseURL").startswith(stacks.aws.base_url)
    assert request.pop("RequestId")
    said = {
        "ServiceToken": custom.arn,
        "Say": "hello",
        "Number": "3",
        "Flag": "true",
        "Nested": {"List": ["1", "false"]},
    }
    stack = stacks.stack("s")["StackId"]
    expected = {"StackId": stack, "ResourceType": "Custom::Thing", "LogicalResourceId": "C"}
    assert request == {"RequestType": "Create", "ResourceProperties": said, **expected}

    assert stacks.update("s", {"C": custom.resource(Say="goodbye")}) == "UPDATE_COMPLETE"
    (request,) = custom.requests()
    assert (request["RequestType"], request["PhysicalResourceId"]) == ("Update", "id-1")
    assert request["OldResourceProperties"] == said
    assert request["ResourceProperties"] == {"ServiceToken": custom.arn, "Say": "goodbye"}

    assert stacks.delete("s") == "DELETE_COMPLETE"
    (request,) = custom.requests()
    assert asked([request]) == [("Delete", "id-1")]
    assert request["ResourceProperties"] == {"ServiceToken": custom.arn, "Say": "goodbye"}


def test_a_new_physical_id_deletes_the_old_one(custom: Custom) -> None:
    stacks = custom.stacks
    stacks.create("s", {"C": custom.resource(Id="one")})
    stacks.update("s", {"C": custom.resource(Id="two")})
    assert stacks.resources("s") == {"C": "two"}
    found = custom.requests()
    assert asked(found) == [("Create", None), ("Update", "one"), ("Delete", "one")]
    assert found[-1]["ResourceProperties"]["Id"] == "one"


@pytest.mark.parametrize("how", ["Fail", "Die"])
def test_a_failed_creation_is_deleted_by_the_rollback(custom: Custom, how: str) -> None:
    stacks = custom.stacks
    assert stacks.create("s", {"C": custom.resource(**{how: "Create"}, Id="mine")}) == "ROLLBACK_COMPLETE"
    told = {"Fail": "it does not work", "Die": "the function died"}[how]
    failed = next(one for one in stacks.events("s") if one[1] == "CREATE_FAILED")
    assert failed[0] == "C"
    described = stacks.api.describe_stack_events(StackName=stacks.stack("s")["StackId"])["StackEvents"]
    assert any(told in one.get("ResourceStatusReason", "") for one in described)
    kinds = asked(custom.requests())
    assert [kind for kind, _ in kinds] == ["Create", "Delete"]
    if how == "Fail":
        assert kinds[-1] == ("Delete", "mine")


def test_a_failed_update_is_updated_back(custom: Custom) -> None:
    stacks = custom.stacks
    stacks.create("s", {"C": custom.resource(Say="old")})
    custom.requests()
    assert stacks.update("s", {"C": custom.resource(Say="new", Fail="Update")}) == "UPDATE_ROLLBACK_COMPLETE"
    assert "it does not work" in str(stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"])
    forth, back = custom.requests()
    assert (forth["RequestType"], back["RequestType"]) == ("Update", "Update")
    assert forth["ResourceProperties"] == back["OldResourceProperties"]
    assert back["ResourceProperties"] == {"ServiceToken": custom.arn, "Say": "old"}


def test_an_update_with_a_new_id_is_taken_back(custom: Custom) -> None:
    stacks = custom.stacks
    stacks.create("s", {"C": custom.resource(Id="one")})
    resources = {"C": custom.resource(Id="two"), "Bad": parameter({"Fn::GetAtt": ["C", "Missing"]})}
    assert stacks.update("s", resources) == "UPDATE_ROLLBACK_COMPLETE"
    assert stacks.resources("s") == {"C": "one"}
    assert asked(custom.requests())[1:] == [("Update", "one"), ("Update", "two"), ("Delete", "two")]


def test_a_deletion_that_fails_is_asked_again(custom: Custom) -> None:
    stacks = custom.stacks
    stacks.create("s", {"C": custom.resource(Fail="Delete")})
    assert stacks.delete("s") == "DELETE_FAILED"
    assert "it does not work" in stacks.reason("s", "C")
    # The function learns better.
    upload(stacks, CODE.replace('"FAILED"', '"SUCCESS"'))
    changed = function(custom.bucket, Description="better")
    changed["Function"]["Properties"]["Code"]["S3Key"] = "better.zip"
    s3 = stacks.aws.client("s3")
    s3.copy_object(Bucket=custom.bucket, Key="better.zip", CopySource={"Bucket": custom.bucket, "Key": "code.zip"})
    assert stacks.update("functions", changed) == "UPDATE_COMPLETE"
    s3.delete_object(Bucket=custom.bucket, Key="better.zip")
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_no_answer_in_time(custom: Custom) -> None:
    stacks = custom.stacks
    silent = upload(stacks, "\ndef handler(event, context):\n    pass\n")
    resources = function(silent)
    resources["C"] = {"Type": "Custom::Silent", "DeletionPolicy": "Retain"}
    resources["C"]["Properties"] = {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "ServiceTimeout": 1}
    assert stacks.create("s", resources) == "ROLLBACK_COMPLETE"
    assert "no answer within 1 s" in str(stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"])


def test_a_function_that_is_not_there(stacks: Stacks) -> None:
    arn = "arn:aws:lambda:us-west-2:123456789012:function:missing"
    resources = {"C": {"Type": "Custom::Thing", "DeletionPolicy": "Retain", "Properties": {"ServiceToken": arn}}}
    assert stacks.create("s", resources) == "ROLLBACK_COMPLETE"
    assert "Function not found" in str(stacks.api.describe_stack_events(StackName=stacks.name("s"))["StackEvents"])
