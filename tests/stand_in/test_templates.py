"""Parameters, conditions, mappings, functions, exports, and the API's views of stacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stand_in.conftest import REGION, Stacks, parameter, refused


def outputs(stacks: Stacks, values: dict[str, Any], **more: Any) -> dict[str, str]:
    """Deploy a stack whose outputs are these values; what they became."""
    resources = more.pop("resources", {"A": parameter("held")})
    sections = {"Outputs": {name: {"Value": value} for name, value in values.items()}, **more}
    assert stacks.create("s", resources, **sections) == "CREATE_COMPLETE"
    return stacks.outputs("s")


def test_functions(stacks: Stacks) -> None:
    values = {
        "Join": {"Fn::Join": ["-", ["a", {"Ref": "AWS::Region"}, 3, True]]},
        "Select": {"Fn::Select": [1, {"Fn::Split": [",", "a,b,c"]}]},
        "Sub": {"Fn::Sub": ["${A.Value} ${own} ${!kept} ${AWS::AccountId}", {"own": {"Ref": "P"}}]},
        "Map": {"Fn::FindInMap": ["Table", {"Ref": "AWS::Region"}, "x"]},
        "Base": {"Fn::Base64": "text"},
        "Zone": {"Fn::Select": [0, {"Fn::GetAZs": ""}]},
        "Cidr": {"Fn::Select": [1, {"Fn::Cidr": ["10.0.0.0/16", 4, 8]}]},
        "Yes": {"Fn::If": ["IsP", "yes", "no"]},
        "No": {"Fn::If": ["IsNot", {"Ref": "A"}, "no"]},
        "Both": {"Fn::If": ["Both", "yes", "no"]},
        "Names": {"Fn::Sub": "${AWS::Partition} ${AWS::URLSuffix}"},
    }
    found = outputs(
        stacks,
        values,
        Parameters={"P": {"Type": "String", "Default": "p"}},
        Mappings={"Table": {REGION: {"x": "mapped"}}},
        Conditions={
            "IsP": {"Fn::Equals": [{"Ref": "P"}, "p"]},
            "IsNot": {"Fn::Not": [{"Condition": "IsP"}]},
            "Both": {"Fn::And": [{"Condition": "IsP"}, {"Fn::Or": [{"Condition": "IsNot"}, {"Condition": "IsP"}]}]},
        },
    )
    assert found == {
        "Join": f"a-{REGION}-3-true",
        "Select": "b",
        "Sub": "held p ${kept} 123456789012",
        "Map": "mapped",
        "Base": "dGV4dA==",
        "Zone": f"{REGION}a",
        "Cidr": "10.0.1.0/24",
        "Yes": "yes",
        "No": "no",
        "Both": "yes",
        "Names": "aws amazonaws.com",
    }


def test_dynamic_references(stacks: Stacks) -> None:
    name = stacks.name("dynamic")
    stacks.create("first", {"P": parameter() | {"Properties": {"Type": "String", "Value": "found", "Name": name}}})
    found = outputs(stacks, {"Latest": f"{{{{resolve:ssm:{name}}}}}", "First": f"a {{{{resolve:ssm:{name}:1}}}}"})
    assert found == {"Latest": "found", "First": "a found"}
    assert stacks.create("secret", {"P": parameter("{{resolve:secretsmanager:x}}")}) == "ROLLBACK_COMPLETE"
    assert "secretsmanager" in stacks.reason("secret", "P")


def test_conditions_on_resources_and_outputs(stacks: Stacks) -> None:
    resources = {
        "Always": parameter({"Fn::If": ["Never", {"Ref": "Never"}, "always"]}),
        "Never": parameter(Condition="Never"),
    }
    stacks.create(
        "s",
        resources,
        Conditions={"Never": {"Fn::Equals": ["a", "b"]}},
        Outputs={"O": {"Value": {"Ref": "Never"}, "Condition": "Never"}},
    )
    assert set(stacks.resources("s")) == {"Always"} and stacks.outputs("s") == {}
    # A reference to what is not there is an error, not an empty text.
    resources["Always"] = parameter({"Ref": "Never"})
    conditions = {"Never": {"Fn::Equals": ["a", "b"]}}
    assert stacks.update("s", resources, Conditions=conditions) == "UPDATE_ROLLBACK_COMPLETE"


def test_no_value_leaves_out(stacks: Stacks) -> None:
    nothing = {"Ref": "AWS::NoValue"}
    stacks.create("s", {"A": parameter() | {"Properties": parameter()["Properties"] | {"Description": nothing}}})
    name = stacks.resources("s")["A"]
    ssm = stacks.aws.client("ssm")
    found = ssm.describe_parameters(ParameterFilters=[{"Key": "Name", "Values": [name]}])["Parameters"][0]
    assert "Description" not in found


def test_parameters(stacks: Stacks) -> None:
    declared: dict[str, dict[str, Any]] = {
        "Given": {"Type": "String"},
        "Default": {"Type": "Number", "Default": 3},
        "List": {"Type": "CommaDelimitedList"},
        "Secret": {"Type": "String", "NoEcho": True},
    }
    made = {"O": {"Value": {"Fn::Join": ["|", {"Ref": "List"}]}}, "D": {"Value": {"Fn::Sub": "${Given}${Default}"}}}
    values = {"Given": "one", "List": "a, b", "Secret": "hush"}
    stacks.create("s", {"A": parameter({"Ref": "Secret"})}, Parameters=declared, Outputs=made, values=values)
    assert stacks.outputs("s") == {"O": "a|b", "D": "one3"}
    shown = {one["ParameterKey"]: one["ParameterValue"] for one in stacks.stack("s")["Parameters"]}
    assert shown == {"Given": "one", "Default": "3", "List": "a, b", "Secret": "****"}
    # Previous values stay; the template's default is one of them.
    declared["Default"]["Default"] = 4
    previous = {"Given": "two", "List": None, "Default": None, "Secret": None}
    stacks.update("s", {"A": parameter({"Ref": "Secret"})}, Parameters=declared, Outputs=made, values=previous)
    assert stacks.outputs("s") == {"O": "a|b", "D": "two3"}


@pytest.mark.parametrize(
    ("declared", "values", "told"),
    [
        ({"P": {"Type": "String"}}, {}, "must have values"),
        ({}, {"P": "v"}, "do not exist in the template"),
        ({"P": {"Type": "String", "AllowedValues": ["a", "b"]}}, {"P": "c"}, "AllowedValues"),
        ({"P": {"Type": "String", "AllowedPattern": "[a-z]+"}}, {"P": "C"}, "pattern"),
        ({"P": {"Type": "AWS::SSM::Parameter::Value<String>"}}, {"P": "/not/there"}, "/not/there"),
    ],
)
def test_refused_parameters(stacks: Stacks, declared: dict[str, Any], values: dict[str, str], told: str) -> None:
    message = refused(lambda: stacks.create("s", {"A": parameter()}, Parameters=declared, values=values))
    assert told in message
    assert "does not exist" in refused(lambda: stacks.stack("s"))


def test_parameters_of_systems_manager(stacks: Stacks) -> None:
    ssm, name = stacks.aws.client("ssm"), stacks.name("held")
    ssm.put_parameter(Name=name, Value="first", Type="String")
    declared = {"P": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": name}}
    resources = {"A": parameter({"Ref": "P"})}
    stacks.create("s", resources, Parameters=declared)
    shown = {"ParameterKey": "P", "ParameterValue": name, "ResolvedValue": "first"}
    assert stacks.stack("s")["Parameters"] == [shown]
    made = stacks.resources("s")["A"]
    # The name stays, its value may be another: that alone is a change.
    ssm.put_parameter(Name=name, Value="second", Type="String", Overwrite=True)
    assert stacks.update("s", resources, Parameters=declared, values={"P": None}) == "UPDATE_COMPLETE"
    assert ssm.get_parameter(Name=made)["Parameter"]["Value"] == "second"
    ssm.delete_parameter(Name=name)


def exported(stacks: Stacks, value: Any = "v", name: str = "export") -> dict[str, Any]:
    return {"Outputs": {"O": {"Value": value, "Export": {"Name": {"Fn::Sub": stacks.name(name)}}}}}


def test_exports_and_imports(stacks: Stacks) -> None:
    stacks.create("producer", {"A": parameter()}, **exported(stacks))
    value = {"Fn::ImportValue": stacks.name("export")}
    stacks.create("consumer", {"A": parameter(value)})
    held = stacks.aws.client("ssm").get_parameter(Name=stacks.resources("consumer")["A"])["Parameter"]["Value"]
    assert held == "v"
    listed = [one for one in stacks.api.list_exports()["Exports"] if one["Name"] == stacks.name("export")]
    assert [one["Value"] for one in listed] == ["v"]
    users = stacks.api.list_imports(ExportName=stacks.name("export"))["Imports"]
    assert users == [stacks.name("consumer")]

    in_use = f"Export {stacks.name('export')} cannot be deleted as it is in use by {stacks.name('consumer')}"
    assert in_use in refused(lambda: stacks.delete("producer"))
    assert stacks.update("producer", {"A": parameter()}) == "UPDATE_ROLLBACK_COMPLETE"
    assert in_use in _told(stacks, "producer")
    assert stacks.update("producer", {"A": parameter("b")}, **exported(stacks, "other")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "cannot be updated" in _told(stacks, "producer")
    assert stacks.outputs("producer") == {"O": "v"}

    assert stacks.update("consumer", {"A": parameter()}) == "UPDATE_COMPLETE"
    assert "not imported by any stack" in refused(lambda: stacks.api.list_imports(ExportName=stacks.name("export")))
    assert stacks.delete("producer") == "DELETE_COMPLETE"


def _told(stacks: Stacks, name: str) -> str:
    """Why the latest update of a stack went back."""
    stack = stacks.stack(name)["StackId"]
    for one in stacks.api.describe_stack_events(StackName=stack)["StackEvents"]:
        if one["ResourceStatus"] == "UPDATE_ROLLBACK_IN_PROGRESS":
            return str(one["ResourceStatusReason"])
    return ""


def test_exports_of_the_same_name_and_none(stacks: Stacks) -> None:
    stacks.create("one", {"A": parameter()}, **exported(stacks))
    assert stacks.create("two", {"A": parameter()}, **exported(stacks)) == "ROLLBACK_COMPLETE"
    value = {"Fn::ImportValue": stacks.name("never")}
    assert stacks.create("three", {"A": parameter(value)}) == "ROLLBACK_COMPLETE"
    assert f"No export named {stacks.name('never')} found" in stacks.reason("three", "A")


def test_yaml_with_short_forms(stacks: Stacks) -> None:
    text = """
Parameters:
  P: {Type: String, Default: 2012-10-17}
Conditions:
  C: !Equals [!Ref P, "2012-10-17"]
Resources:
  A:
    Type: AWS::SSM::Parameter
    Properties: {Type: String, Value: !Sub "${P}!"}
Outputs:
  O: {Value: !GetAtt A.Value}
  J: {Value: !Join ["", [!Select [0, !GetAZs ""], !If [C, yes-it-is, no-it-is-not]]]}
"""
    stacks._made.append("s")
    stacks.api.create_stack(StackName=stacks.name("s"), TemplateBody=text)
    assert stacks.settled("s") == "CREATE_COMPLETE"
    assert stacks.outputs("s") == {"O": "2012-10-17!", "J": f"{REGION}ayes-it-is"}
    assert stacks.api.validate_template(TemplateBody=text)["Parameters"][0]["DefaultValue"] == "2012-10-17"


def test_templates_from_s3(stacks: Stacks) -> None:
    s3, bucket = stacks.aws.client("s3"), stacks.name("templates")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=bucket, Key="a/t.json", Body=json.dumps({"Resources": {"A": parameter()}}))
    stacks._made += ["local", "remote"]
    for name, url in (
        ("local", f"{stacks.aws.base_url}/{bucket}/a/t.json"),
        ("remote", f"https://{bucket}.s3.{REGION}.amazonaws.com/a/t.json"),
    ):
        stacks.api.create_stack(StackName=stacks.name(name), TemplateURL=url)
        assert stacks.settled(name) == "CREATE_COMPLETE"
    missing = {"StackName": stacks.name("missing"), "TemplateURL": f"{stacks.aws.base_url}/{bucket}/none.json"}
    assert "S3 error" in refused(lambda: stacks.api.create_stack(**missing))
    s3.delete_object(Bucket=bucket, Key="a/t.json")
    s3.delete_bucket(Bucket=bucket)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Resources": {}}', '{"Resources": {"A": {}}}', '{"Colour": 1}'])
def test_what_is_no_template(stacks: Stacks, text: str) -> None:
    assert refused(lambda: stacks.api.create_stack(StackName=stacks.name("s"), TemplateBody=text or " "))


def test_views(stacks: Stacks) -> None:
    stacks.create("s", {"A": parameter(), "B": parameter()}, Capabilities=["CAPABILITY_IAM"])
    name = stacks.name("s")
    one = stacks.api.describe_stack_resource(StackName=name, LogicalResourceId="A")["StackResourceDetail"]
    assert one["ResourceStatus"] == "CREATE_COMPLETE" and one["ResourceType"] == "AWS::SSM::Parameter"
    missing = {"StackName": name, "LogicalResourceId": "C"}
    assert "does not exist" in refused(lambda: stacks.api.describe_stack_resource(**missing))
    listed = stacks.api.list_stack_resources(StackName=name)["StackResourceSummaries"]
    assert [item["LogicalResourceId"] for item in listed] == ["A", "B"]
    stack = stacks.stack("s")
    assert stack["Capabilities"] == ["CAPABILITY_IAM"] and "CreationTime" in stack
    stacks.delete("s")
    gone = stacks.api.list_stacks(StackStatusFilter=["DELETE_COMPLETE"])["StackSummaries"]
    assert name in [item["StackName"] for item in gone]
    assert name not in [item["StackName"] for item in stacks.api.describe_stacks()["Stacks"]]
    assert "no action" in refused(lambda: stacks.api.list_stack_sets())
