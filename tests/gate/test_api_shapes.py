"""Every resource's properties fit the API call that CloudFormation makes with them, as botocore describes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stand_in.cloudformation.intrinsics import Resolver
from tests.gate.api_shapes import NoOperation, mappings, mistakes, operation
from tests.gate.plausible import resolver
from tests.stacks.synthesis import Synthesized

VARIANTS: dict[str, dict[str, object]] = {
    "interactive": {"training.mode": "interactive"},
    "budget": {"budget.monthly_usd": 100, "budget.email": "a@example.com", "alarms.email": "a@example.com"},
}


def refused(made: Synthesized) -> list[str]:
    """What the APIs would refuse of a whole assembly."""
    found = []
    for stack, template in made.templates.items():
        resolve: Resolver = resolver(stack, made.templates)
        for name, resource in template["Resources"].items():
            kind = resource["Type"]
            if kind.startswith(("AWS::CloudFormation::", "Custom::")):
                continue
            properties: dict[str, Any] = resolve.resolve(resource.get("Properties", {}))
            found += [f"{stack} {kind} {name}: {one}" for one in mistakes(kind, properties)]
    return found


def test_shipped_deployments(deployment: Synthesized) -> None:
    assert refused(deployment) == []


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_variants(synthesize: Callable[..., Synthesized], variant: str) -> None:
    assert refused(synthesize("dev", VARIANTS[variant])) == []


ENDPOINT_CONFIG: dict[str, Any] = {
    "ProductionVariants": [
        {
            "VariantName": "AllTraffic",
            "ModelName": "a-model",
            "InstanceType": "ml.c7g.4xlarge",
            "InitialInstanceCount": 1,
        }
    ]
}
VARIANT = ENDPOINT_CONFIG["ProductionVariants"][0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"InstanceType": "ml.c7q.4xlarge"}, "InstanceType: 'ml.c7q.4xlarge' is none of"),
        ({"VariantName": "v" * 64}, "VariantName: 64 characters, not 0 to 63"),
        ({"VariantName": "all_traffic"}, "VariantName: 'all_traffic' does not match"),
        ({"ContainerStartupHealthCheckTimeoutInSeconds": 30}, "30 in value, not 60 to 3600"),
        ({"InitialInstanceCount": "many"}, "InitialInstanceCount: 'many' is no integer"),
        ({"EnableSSMAccess": "perhaps"}, "EnableSSMAccess: 'perhaps' is no boolean"),
        ({"ModelName": ["a", "b"]}, "ModelName: ['a', 'b'] is no string"),
        ({"ModelNames": "a-model"}, "ModelNames: no such member in sagemaker.CreateEndpointConfig"),
        ({"VariantName": None}, "lacks VariantName, which sagemaker.CreateEndpointConfig requires"),
    ],
)
def test_a_planted_mistake_of_each_kind_is_found(change: dict[str, Any], told: str) -> None:
    variant = {name: value for name, value in {**VARIANT, **change}.items() if value is not None}
    found = mistakes("AWS::SageMaker::EndpointConfig", {"ProductionVariants": [variant]})
    assert len([one for one in found if told in one]) == 1, found
    assert all(one.startswith("ProductionVariants[]") for one in found)


def test_a_mistake_behind_a_mapped_name_is_found() -> None:
    rule = {"IpProtocol": "tcp", "FromPort": "https", "ToPort": 443, "CidrIp": "10.0.0.0/8", "Colour": "red"}
    found = mistakes("AWS::EC2::SecurityGroup", {"GroupDescription": "a group", "SecurityGroupEgress": [rule]})
    assert found == [
        "SecurityGroupEgress[].FromPort: 'https' is no integer",
        "SecurityGroupEgress[].Colour: no such member in ec2.CreateSecurityGroup",
    ]


@pytest.mark.parametrize(
    ("value", "told"),
    [([], "0 items, not 1 to"), ({}, "{} is no list"), (["a"], "'a' is no structure")],
)
def test_a_wrong_shape_is_found(value: object, told: str) -> None:
    (found,) = mistakes("AWS::SageMaker::EndpointConfig", {"ProductionVariants": value})
    assert told in found


def test_without_a_mistake_nothing_is_found() -> None:
    assert mistakes("AWS::SageMaker::EndpointConfig", ENDPOINT_CONFIG) == []


def test_a_type_without_an_entry_is_an_error_not_a_pass() -> None:
    with pytest.raises(NoOperation, match="AWS::SQS::Queue: name the call"):
        mistakes("AWS::SQS::Queue", {})


def test_the_table_names_real_calls_and_gives_reasons() -> None:
    for kind, mapping in mappings().items():
        calls = {mapping.call, *(target.rpartition(":")[0] for target in mapping.properties.values())} - {""}
        for call in calls:
            operation(call)
        assert all(len(reason) > 20 for reason in mapping.own.values()), kind
        shape = operation(mapping.call).input_shape
        assert shape is not None
        assert {name.partition(".")[0] for name in mapping.generated} <= set(shape.members), kind


def test_values_of_other_stacks_and_resources_stand_in_for_the_real_ones() -> None:
    templates: dict[str, dict[str, Any]] = {
        "A": {
            "Resources": {"Net": {"Type": "AWS::EC2::VPC"}},
            "Outputs": {"Vpc": {"Value": {"Ref": "Net"}, "Export": {"Name": "A:Vpc"}}},
        },
        "B": {"Resources": {"Function": {"Type": "AWS::Lambda::Function"}}},
    }
    made = resolver("B", templates)
    assert made.resolve({"Fn::ImportValue": "A:Vpc"}).startswith("vpc-")
    assert (
        made.resolve({"Fn::GetAtt": ["Function", "Arn"]}) == "arn:aws:lambda:us-east-1:123456789012:function:function"
    )
