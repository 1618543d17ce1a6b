"""Change sets: planned, described, executed, deleted."""

from __future__ import annotations

from typing import Any

from tests.stand_in.conftest import Stacks, parameter, refused


def plan(stacks: Stacks, name: str, resources: dict[str, Any], kind: str = "UPDATE", **more: Any) -> dict[str, Any]:
    """Create a change set named `c`; returns its description."""
    arguments = stacks._split(resources, more)
    stacks.api.create_change_set(StackName=stacks.name(name), ChangeSetName="c", ChangeSetType=kind, **arguments)
    if name not in stacks._made:
        stacks._made.append(name)
    return describe(stacks, name)


def describe(stacks: Stacks, name: str) -> dict[str, Any]:
    described: dict[str, Any] = stacks.api.describe_change_set(StackName=stacks.name(name), ChangeSetName="c")
    return described


def changes(described: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """{logical id: (action, replacement)}"""
    found = [one["ResourceChange"] for one in described["Changes"]]
    return {one["LogicalResourceId"]: (one["Action"], one.get("Replacement")) for one in found}


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}, **more}


def test_a_stack_begins_in_review(stacks: Stacks) -> None:
    described = plan(stacks, "s", {"A": parameter()}, "CREATE", Tags=[{"Key": "k", "Value": "v"}])
    assert (described["Status"], described["ExecutionStatus"]) == ("CREATE_COMPLETE", "AVAILABLE")
    assert changes(described) == {"A": ("Add", None)}
    assert described["Tags"] == [{"Key": "k", "Value": "v"}]
    assert stacks.stack("s")["StackStatus"] == "REVIEW_IN_PROGRESS" and stacks.resources("s") == {}
    stacks.api.execute_change_set(ChangeSetName=described["ChangeSetId"])
    assert stacks.settled("s") == "CREATE_COMPLETE"
    assert stacks.stack("s")["ChangeSetId"] == described["ChangeSetId"]
    assert stacks.stack("s")["Tags"] == [{"Key": "k", "Value": "v"}]
    message = refused(lambda: plan(stacks, "s", {"A": parameter("new")}, "CREATE"))
    assert "already exists" in message


def test_what_an_update_would_do(stacks: Stacks) -> None:
    before = {
        "Same": parameter(),
        "Changed": parameter(),
        "Replaced": named(stacks.name("one")),
        "User": parameter({"Ref": "Replaced"}),
        "NamedByIt": named("x", DependsOn="Replaced") | {"Properties": {"LogGroupName": {"Fn::Sub": "of-${Replaced}"}}},
        "Removed": parameter(),
    }
    stacks.create("s", before)
    after = {name: value for name, value in before.items() if name != "Removed"} | {
        "Changed": parameter({"Ref": "Added"}),
        "Replaced": named(stacks.name("two")),
        "Added": parameter(),
    }
    described = plan(stacks, "s", after)
    assert changes(described) == {
        "Changed": ("Modify", "False"),
        "Replaced": ("Modify", "True"),
        "User": ("Modify", "False"),
        "NamedByIt": ("Modify", "Conditional"),
        "Added": ("Add", None),
        "Removed": ("Remove", None),
    }
    ids = stacks.resources("s")
    physical = {
        one["ResourceChange"]["LogicalResourceId"]: one["ResourceChange"].get("PhysicalResourceId")
        for one in described["Changes"]
    }
    assert physical["Removed"] == ids["Removed"] and physical["Added"] is None
    assert stacks.stack("s")["StackStatus"] == "CREATE_COMPLETE"  # nothing has happened yet
    stacks.api.execute_change_set(StackName=stacks.name("s"), ChangeSetName="c")
    assert stacks.settled("s") == "UPDATE_COMPLETE"
    assert set(stacks.resources("s")) == set(after)
    assert stacks.resources("s")["NamedByIt"] == f"of-{stacks.name('two')}"


def test_nothing_to_do(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter()})
    described = plan(stacks, "s", {"A": parameter()})
    assert (described["Status"], described["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    assert "didn't contain changes" in described["StatusReason"]
    assert "No updates are to be performed" in refused(lambda: stacks.update("s", {"A": parameter()}))


def test_only_the_stacks_tags_change(stacks: Stacks) -> None:
    resources = {"A": parameter(), "H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
    stacks.create("s", resources)
    described = plan(stacks, "s", resources, Tags=[{"Key": "k", "Value": "v"}])
    assert changes(described) == {"A": ("Modify", "False")}


def test_names_belong_to_their_stack(stacks: Stacks) -> None:
    for name in ("s", "t"):
        stacks.create(name, {"A": parameter()})
        plan(stacks, name, {"A": parameter(name)})
    assert describe(stacks, "s")["ChangeSetId"] != describe(stacks, "t")["ChangeSetId"]
    assert "already exists" in refused(lambda: plan(stacks, "s", {"A": parameter("third")}))
    stacks.api.delete_change_set(StackName=stacks.name("s"), ChangeSetName="c")
    assert "does not exist" in refused(lambda: describe(stacks, "s"))
    assert describe(stacks, "t")["Status"] == "CREATE_COMPLETE"
    # The CLI deletes change sets that may never have been.
    stacks.api.delete_change_set(StackName=stacks.name("s"), ChangeSetName="never")
    listed = stacks.api.list_change_sets(StackName=stacks.name("t"))["Summaries"]
    assert [one["ChangeSetName"] for one in listed] == ["c"]


def test_an_executed_change_set_takes_the_others_along(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter()})
    first = plan(stacks, "s", {"A": parameter("one")})
    arguments = stacks._split({"A": parameter("two")}, {})
    stacks.api.create_change_set(StackName=stacks.name("s"), ChangeSetName="d", **arguments)
    stacks.api.execute_change_set(StackName=stacks.name("s"), ChangeSetName="d")
    assert stacks.settled("s") == "UPDATE_COMPLETE"
    assert "does not exist" in refused(lambda: stacks.api.execute_change_set(ChangeSetName=first["ChangeSetId"]))


def test_templates_of_change_sets_and_stacks(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter()})
    plan(stacks, "s", {"A": parameter("new")})
    name = stacks.name("s")
    held = stacks.api.get_template(StackName=name)["TemplateBody"]
    planned = stacks.api.get_template(StackName=name, ChangeSetName="c")["TemplateBody"]
    assert held["Resources"]["A"]["Properties"]["Value"] == "v"
    assert planned["Resources"]["A"]["Properties"]["Value"] == "new"
    summary = stacks.api.get_template_summary(StackName=name)
    assert summary["ResourceTypes"] == ["AWS::SSM::Parameter"]
