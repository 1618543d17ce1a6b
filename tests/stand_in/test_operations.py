"""Create, update, roll back, delete."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.stand_in.conftest import Stacks, parameter, refused


def log_group(name: str, **more: Any) -> dict[str, Any]:
    """Fails to be created when there is one of this name."""
    return {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}, **more}


def value_of(stacks: Stacks, name: str) -> str | None:
    ssm = stacks.aws.client("ssm")
    try:
        return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ssm.exceptions.ParameterNotFound:
        return None


@pytest.fixture
def taken(stacks: Stacks) -> Any:
    """The name of a log group that exists outside of all stacks."""
    logs, name = stacks.aws.client("logs"), stacks.name("taken")
    logs.create_log_group(logGroupName=name)
    yield name
    logs.delete_log_group(logGroupName=name)


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        ({"Type": "AWS::Nowhere::Thing"}, "AWS::Nowhere::Thing"),
        (parameter() | {"Properties": {"Type": "String", "Value": "v", "Colour": "red"}}, "Colour"),
        (parameter({"Ref": "Missing"}), "Missing"),
        (parameter({"Fn::GetAtt": ["Missing", "Arn"]}), "Missing"),
        (parameter({"Fn::Sub": "a ${Missing.Arn} b"}), "Missing"),
        (parameter(DependsOn="Missing"), "Missing"),
        (parameter(Condition="Missing"), "Missing"),
        (parameter({"Ref": "Made"}), "Circular"),
        (parameter(Colour="red"), "Colour"),
    ],
)
@pytest.mark.parametrize("direct", [True, False])
def test_what_is_refused_before_anything_is_made(
    stacks: Stacks, resource: dict[str, Any], told: str, direct: bool
) -> None:
    resources = {"Fine": parameter(), "Made": resource}
    if direct:
        assert told in refused(lambda: stacks.create("s", resources))
        assert "does not exist" in refused(lambda: stacks.stack("s"))
    else:
        arguments = {"StackName": stacks.name("s"), "ChangeSetName": "c", "ChangeSetType": "CREATE"}
        try:
            made = stacks.api.create_change_set(**arguments, **stacks._split(resources, {}))
        except ClientError as error:
            assert told in str(error)
            return
        described = stacks.api.describe_change_set(ChangeSetName=made["Id"])
        assert (described["Status"], described["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
        assert told in described["StatusReason"]
        assert "cannot be executed" in refused(lambda: stacks.api.execute_change_set(ChangeSetName=made["Id"]))
        stacks.api.delete_stack(StackName=stacks.name("s"))
        stacks.settled(made["StackId"])


def test_an_update_with_what_is_refused_changes_nothing(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter("old")})
    message = refused(lambda: stacks.update("s", {"A": parameter("new"), "B": {"Type": "AWS::Nowhere::Thing"}}))
    assert "AWS::Nowhere::Thing" in message
    assert "resource type" in refused(lambda: stacks.update("s", {"A": log_group("g")}))
    assert stacks.stack("s")["StackStatus"] == "CREATE_COMPLETE"
    assert value_of(stacks, stacks.resources("s")["A"]) == "old"


def test_order_follows_references(stacks: Stacks) -> None:
    resources = {
        "ByDependsOn": parameter(DependsOn=["ByAttribute", "ByReference"]),
        "ByAttribute": parameter({"Fn::GetAtt": ["BySub", "Value"]}),
        "BySub": parameter({"Fn::Sub": ["${ByReference} ${own} ${!literal}", {"own": {"Ref": "First"}}]}),
        "ByReference": parameter({"Ref": "First"}),
        "First": parameter(),
    }
    order = ["First", "ByReference", "BySub", "ByAttribute", "ByDependsOn"]
    assert stacks.create("s", resources) == "CREATE_COMPLETE"
    ids = stacks.resources("s")
    assert value_of(stacks, ids["ByAttribute"]) == f"{ids['ByReference']} {ids['First']} ${{literal}}"
    expected = [(name, f"CREATE_{state}") for name in order for state in ("IN_PROGRESS", "COMPLETE")]
    assert stacks.events("s") == expected
    stack = stacks.stack("s")["StackId"]
    assert stacks.delete("s") == "DELETE_COMPLETE"
    told = stacks.api.describe_stack_events(StackName=stack)["StackEvents"]
    gone = [one["LogicalResourceId"] for one in reversed(told) if one["ResourceStatus"] == "DELETE_COMPLETE"]
    assert gone[:-1] == order[::-1]
    assert "does not exist" in refused(lambda: stacks.stack("s"))


def test_a_failed_creation_takes_everything_back(stacks: Stacks, taken: str) -> None:
    resources = {
        "Before": parameter(),
        "Failing": log_group(taken, DependsOn="Before"),
        "After": parameter(DependsOn="Failing"),
    }
    assert stacks.create("s", resources) == "ROLLBACK_COMPLETE"
    events = stacks.events("s")
    assert ("Failing", "CREATE_FAILED") in events and ("Before", "DELETE_COMPLETE") in events
    assert "After" not in dict(events)
    assert "already exists" in stacks.reason("s", "Failing")
    assert stacks.resources("s") == {}
    # The group that was there before is no part of the stack.
    assert stacks.aws.client("logs").describe_log_groups(logGroupNamePrefix=taken)["logGroups"]
    assert "can not be updated" in refused(lambda: stacks.update("s", {"A": parameter()}))


def test_what_fails_halfway_is_taken_back_too(stacks: Stacks) -> None:
    name = stacks.name("bucket")
    rule = {"Status": "Enabled", "ExpirationInDays": 3, "Colour": "red"}
    bucket = {"BucketName": name, "LifecycleConfiguration": {"Rules": [rule]}}
    role = {
        "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []},
        "RoleName": name,
        "ManagedPolicyArns": ["arn:aws:iam::123456789012:policy/missing"],
    }
    assert stacks.create("s", {"B": {"Type": "AWS::S3::Bucket", "Properties": bucket}}) == "ROLLBACK_COMPLETE"
    assert stacks.create("t", {"R": {"Type": "AWS::IAM::Role", "Properties": role}}) == "ROLLBACK_COMPLETE"
    assert name not in [one["Name"] for one in stacks.aws.client("s3").list_buckets()["Buckets"]]
    assert name not in [one["RoleName"] for one in stacks.aws.client("iam").list_roles()["Roles"]]


def test_rollback_can_be_turned_off(stacks: Stacks, taken: str) -> None:
    resources = {"Before": parameter(), "Failing": log_group(taken, DependsOn="Before")}
    assert stacks.create("s", resources, OnFailure="DO_NOTHING") == "CREATE_FAILED"
    assert value_of(stacks, stacks.resources("s")["Before"]) == "v"


def test_a_failed_update_goes_back(stacks: Stacks, taken: str) -> None:
    declared = {"P": {"Type": "String"}}
    value = {"Ref": "P"}
    first = {"Old": parameter(value), "Same": parameter()}
    stacks.create("s", first, Parameters=declared, values={"P": "old"}, Tags=[_tag("old")])
    old, same = stacks.resources("s")["Old"], stacks.resources("s")["Same"]
    resources = {
        "Old": parameter(value),
        "Same": parameter(),
        "New": parameter(DependsOn="Old"),
        "Bad": log_group(taken, DependsOn="New"),
    }
    arguments: dict[str, Any] = {"Parameters": declared, "values": {"P": "new"}, "Tags": [_tag("new")]}
    assert stacks.update("s", resources, **arguments) == "UPDATE_ROLLBACK_COMPLETE"
    assert stacks.resources("s") == {"Old": old, "Same": same}
    assert (value_of(stacks, old), value_of(stacks, same)) == ("old", "v")
    stack = stacks.stack("s")
    assert stack["Parameters"] == [{"ParameterKey": "P", "ParameterValue": "old"}] and stack["Tags"] == [_tag("old")]
    statuses = [
        one["ResourceStatus"]
        for one in stacks.api.describe_stack_events(StackName=stack["StackId"])["StackEvents"]
        if one["PhysicalResourceId"] == stack["StackId"]
    ]
    assert statuses[:4] == [
        "UPDATE_ROLLBACK_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_IN_PROGRESS",
    ]
    events = stacks.events("s")
    assert ("New", "DELETE_COMPLETE") in events and events.count(("Old", "UPDATE_COMPLETE")) == 2
    assert stacks.update("s", {"Old": parameter("third")}) == "UPDATE_COMPLETE"


def _tag(value: str) -> dict[str, str]:
    return {"Key": "owner", "Value": value}


def test_replacement_makes_the_new_before_the_old_goes(stacks: Stacks) -> None:
    def named(name: str) -> dict[str, Any]:
        return {
            "Named": log_group(stacks.name(name)),
            "User": parameter({"Ref": "Named"}),
        }

    stacks.create("s", named("one"))
    assert stacks.update("s", named("two")) == "UPDATE_COMPLETE"
    assert stacks.events("s")[4:] == [
        ("Named", "UPDATE_IN_PROGRESS"),
        ("Named", "CREATE_IN_PROGRESS"),
        ("Named", "CREATE_COMPLETE"),
        ("User", "UPDATE_IN_PROGRESS"),
        ("User", "UPDATE_COMPLETE"),
        ("Named", "DELETE_IN_PROGRESS"),
        ("Named", "DELETE_COMPLETE"),
    ]
    ids = stacks.resources("s")
    assert ids["Named"] == stacks.name("two") == value_of(stacks, ids["User"])
    assert _groups(stacks) == [stacks.name("two")]


def test_a_replacement_is_undone(stacks: Stacks, taken: str) -> None:
    stacks.create("s", {"Named": log_group(stacks.name("one"))})
    resources = {"Named": log_group(stacks.name("two")), "Bad": log_group(taken, DependsOn="Named")}
    assert stacks.update("s", resources) == "UPDATE_ROLLBACK_COMPLETE"
    assert _groups(stacks) == sorted([stacks.name("one"), taken])
    assert stacks.resources("s") == {"Named": stacks.name("one")}


def _groups(stacks: Stacks) -> list[str]:
    held = stacks.aws.client("logs").describe_log_groups()["logGroups"]
    return sorted(one["logGroupName"] for one in held if one["logGroupName"].endswith(stacks.unique))


def test_what_leaves_the_template_is_deleted(stacks: Stacks) -> None:
    stacks.create("s", {"Stays": parameter(), "Goes": parameter({"Ref": "Stays"})})
    gone = stacks.resources("s")["Goes"]
    assert stacks.update("s", {"Stays": parameter()}) == "UPDATE_COMPLETE"
    assert set(stacks.resources("s")) == {"Stays"}
    assert value_of(stacks, gone) is None


@pytest.mark.parametrize(
    ("policy", "after_delete", "after_removal", "after_failed_creation"),
    [
        ("Delete", False, False, False),
        ("Retain", True, True, True),
        ("RetainExceptOnCreate", True, True, False),
    ],
)
def test_deletion_policies(
    stacks: Stacks, taken: str, policy: str, after_delete: bool, after_removal: bool, after_failed_creation: bool
) -> None:
    kept = parameter(DeletionPolicy=policy)
    physical = []
    stacks.create("deleted", {"Kept": kept})
    physical.append(stacks.resources("deleted")["Kept"])
    stacks.delete("deleted")
    stacks.create("removed", {"Kept": kept, "Other": parameter()})
    physical.append(stacks.resources("removed")["Kept"])
    stacks.update("removed", {"Other": parameter()})
    resources = {"Kept": kept | {"Properties": kept["Properties"] | {"Name": stacks.name("kept")}}}
    assert stacks.create("failed", {**resources, "F": log_group(taken, DependsOn="Kept")}) == "ROLLBACK_COMPLETE"
    physical.append(stacks.name("kept"))
    left = [value_of(stacks, one) is not None for one in physical]
    assert left == [after_delete, after_removal, after_failed_creation]
    for one, there in zip(physical, left, strict=True):
        if there:
            stacks.aws.client("ssm").delete_parameter(Name=one)


def test_a_new_resource_of_a_failed_update_goes_unless_it_is_retained(stacks: Stacks, taken: str) -> None:
    stacks.create("s", {"A": parameter()})
    properties = {"Type": "String", "Value": "v"}
    resources = {
        name: parameter(DeletionPolicy=name) | {"Properties": properties | {"Name": stacks.name(name)}}
        for name in ("Retain", "RetainExceptOnCreate")
    }
    bad = log_group(taken, DependsOn=list(resources))
    assert stacks.update("s", {"A": parameter(), **resources, "Bad": bad}) == "UPDATE_ROLLBACK_COMPLETE"
    assert value_of(stacks, stacks.name("Retain")) == "v"
    assert value_of(stacks, stacks.name("RetainExceptOnCreate")) is None
    stacks.aws.client("ssm").delete_parameter(Name=stacks.name("Retain"))


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_update_replace_policy(stacks: Stacks, policy: str) -> None:
    stacks.create("s", {"G": log_group(stacks.name("one"), UpdateReplacePolicy=policy)})
    stacks.update("s", {"G": log_group(stacks.name("two"), UpdateReplacePolicy=policy)})
    assert (stacks.name("one") in _groups(stacks)) == (policy == "Retain")
    assert stacks.delete("s") == "DELETE_COMPLETE"
    assert _groups(stacks) == ([stacks.name("one")] if policy == "Retain" else [])
    if policy == "Retain":
        stacks.aws.client("logs").delete_log_group(logGroupName=stacks.name("one"))


def test_a_failed_deletion_is_tried_again(stacks: Stacks) -> None:
    s3, name = stacks.aws.client("s3"), stacks.name("full")
    resources = {
        "Needed": parameter(),
        "Bucket": {"Type": "AWS::S3::Bucket", "DependsOn": "Needed", "Properties": {"BucketName": name}},
        "Last": parameter({"Ref": "Bucket"}),
    }
    stacks.create("s", resources)
    s3.put_object(Bucket=name, Key="k", Body=b"v")
    assert stacks.delete("s") == "DELETE_FAILED"
    assert "Bucket" in stacks.stack("s")["StackStatusReason"]
    assert "not empty" in stacks.reason("s", "Bucket")
    assert set(stacks.resources("s")) == {"Needed", "Bucket"}  # what it needs stays with it
    s3.delete_object(Bucket=name, Key="k")
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_resources_can_be_left_out_of_a_deletion(stacks: Stacks) -> None:
    stacks.create("s", {"Kept": parameter(), "Gone": parameter()})
    kept = stacks.resources("s")["Kept"]
    assert stacks.delete("s", RetainResources=["Kept"]) == "DELETE_COMPLETE"
    assert value_of(stacks, kept) == "v"
    stacks.aws.client("ssm").delete_parameter(Name=kept)


def test_what_is_gone_already_is_no_obstacle(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter()})
    stacks.aws.client("ssm").delete_parameter(Name=stacks.resources("s")["A"])
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_termination_protection(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter()}, EnableTerminationProtection=True)
    assert "TerminationProtection is enabled" in refused(lambda: stacks.delete("s"))
    stacks.api.update_termination_protection(StackName=stacks.name("s"), EnableTerminationProtection=False)
    assert stacks.delete("s") == "DELETE_COMPLETE"


def test_one_operation_at_a_time(stacks: Stacks) -> None:
    waiting = {
        "H": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "W": {"Type": "AWS::CloudFormation::WaitCondition", "Properties": {"Handle": {"Ref": "H"}, "Timeout": "1"}},
    }
    stacks.create("s", waiting, wait=False)
    assert "already exists" in refused(lambda: stacks.create("s", waiting, wait=False))
    assert "can not be updated" in refused(lambda: stacks.update("s", {"A": parameter()}))
    assert "can not be deleted" in refused(lambda: stacks.delete("s"))
    assert stacks.settled("s") == "ROLLBACK_COMPLETE"


def test_a_stack_of_the_same_name_can_follow(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter()})
    first = stacks.stack("s")["StackId"]
    stacks.delete("s")
    assert stacks.create("s", {"A": parameter()}) == "CREATE_COMPLETE"
    assert stacks.stack("s")["StackId"] != first
    assert stacks.stack(first)["StackStatus"] == "DELETE_COMPLETE"
    assert stacks.api.delete_stack(StackName=stacks.name("never"))["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_an_event_for_what_a_service_does_not_give(stacks: Stacks) -> None:
    resources = {"A": parameter(), "B": parameter({"Fn::GetAtt": ["A", "Colour"]})}
    assert stacks.create("s", resources) == "ROLLBACK_COMPLETE"
    assert "no attribute Colour" in stacks.reason("s", "B")
