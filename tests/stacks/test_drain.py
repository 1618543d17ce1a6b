"""SageMaker's network interfaces: what must be deleted before they are waited for, and what after."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from stand_in.cloudformation.graph import dependencies
from stand_in.cloudformation.template import parse_template
from tests.stacks.synthesis import Synthesized, listed, statements

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")

DRAIN = "Custom::DrainInterfaces"


def needs(template: Mapping[str, Any]) -> dict[str, set[str]]:
    """Of each resource, all that exists before it and goes after it."""
    direct = dependencies(parse_template(json.dumps(template)).resources)
    found: dict[str, set[str]] = {}

    def reach(name: str) -> set[str]:
        if name not in found:
            found[name] = set()
            for one in direct[name]:
                found[name] |= {one} | reach(one)
        return found[name]

    for name in direct:
        reach(name)
    return found


def named(template: Mapping[str, Any], kind: str) -> set[str]:
    return {name for name, resource in template["Resources"].items() if resource["Type"] == kind}


def test_endpoint_and_model_go_before_the_drain_and_role_and_policy_after_it(deployment: Synthesized) -> None:
    template = deployment.templates["Graviton"]
    (drain,) = named(template, DRAIN)
    reached = needs(template)
    for name in named(template, "AWS::SageMaker::Model") | named(template, "AWS::SageMaker::Endpoint"):
        assert drain in reached[name]
    resources = template["Resources"]
    roles = {
        resources[name]["Properties"]["ExecutionRoleArn"]["Fn::GetAtt"][0]
        for name in named(template, "AWS::SageMaker::Model")
    }
    policies = {
        name
        for name in named(template, "AWS::IAM::Policy")
        if roles & {role["Ref"] for role in resources[name]["Properties"]["Roles"]}
    }
    assert roles and policies
    assert roles | policies <= reached[drain]


def test_the_drain_watches_the_models_group_whose_stack_is_another(deployment: Synthesized) -> None:
    (drain,) = deployment.resources(DRAIN).values()
    for model in deployment.resources("AWS::SageMaker::Model").values():
        assert model["Properties"]["VpcConfig"]["SecurityGroupIds"] == [drain["Properties"]["SecurityGroupId"]]
    assert not deployment.resources("AWS::EC2::SecurityGroup", "Graviton")
    # Within CloudFormation's hour, and beyond what the function may take.
    function = deployment.resources("AWS::Lambda::Function", "Graviton")[
        drain["Properties"]["ServiceToken"]["Fn::GetAtt"][0]
    ]
    assert function["Properties"]["Timeout"] < int(drain["Properties"]["ServiceTimeout"]) <= 3600


def test_role_and_drain_outlive_an_endpoint_that_another_type_replaces(
    synthesize: Callable[..., Synthesized], dev: Synthesized
) -> None:
    """The new endpoint has interfaces in the same group: a drain that went with the old one would wait in vain."""
    other = synthesize("dev", {"sentiment.endpoint.instance_type": "ml.c7g.2xlarge"})
    assert set(dev.resources(DRAIN)) == set(other.resources(DRAIN))
    roles = [
        {name for name in one.resources("AWS::IAM::Role", "Graviton") if "Execution" in name or "Drain" in name}
        for one in (dev, other)
    ]
    assert len(roles[0]) == 2 and roles[0] == roles[1]
    # Old and new log for the length of the change.
    (text,) = {
        json.dumps(statement["Resource"])
        for one in (dev, other)
        for name, statement in statements(one.templates["Graviton"])
        if "Execution" in name and "logs:PutLogEvents" in listed(statement["Action"])
    }
    assert "torchlift-dev-sentiment-*" in text
