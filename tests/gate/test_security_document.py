"""docs/security.md lists every role with exactly what it may do, and the bootstrap policy covers every resource."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from settings import REPO_ROOT
from tests.stacks.synthesis import Synthesized, listed, statements

DOCUMENT = (REPO_ROOT / "docs/security.md").read_text()
AGENT = {
    *re.findall(r"`((?:ec2messages|ssm|ssmmessages):\w+)`", DOCUMENT.partition("\nSession Manager's agent: ")[2]),
}
ROWS = re.findall(r"^\| (\w+) \| (`.+?) \| (.+?) \|$", DOCUMENT, re.MULTILINE)
ROLES = {
    name: set(re.findall(r"`([\w-]+:\w+)`", may)) | (AGENT if "Session Manager" in may else set())
    for name, may, _ in ROWS
}
POLICY = json.loads((REPO_ROOT / "docs/bootstrap-policy.json").read_text())
IAM_NAMES = {
    "ApplicationAutoScaling": "application-autoscaling",
    "ElasticLoadBalancingV2": "elasticloadbalancing",
}
"""Services whose IAM prefix is not their CloudFormation name in lower case."""


@pytest.fixture
def everything(synthesize: Callable[..., Synthesized]) -> Synthesized:
    """A deployment with every role."""
    return synthesize(
        "dev",
        {
            "training.mode": "interactive",
            "question_answering.token_secret_arn": "arn:aws:secretsmanager:us-west-2:123456789012:secret:token-AbCdEf",
            "sentiment.endpoint.data_capture": {"sampling_percent": 10},
        },
    )


def allowed(assembly: Synthesized) -> dict[str, set[str]]:
    """{row of the document: actions}, for every role of every stack."""
    found: dict[str, set[str]] = {}
    for template in assembly.templates.values():
        policies = {name: set[str]() for name in template["Resources"]}
        for name, statement in statements(template):
            policies[name] |= set(listed(statement["Action"]))
        for name, resource in template["Resources"].items():
            if resource["Type"] == "AWS::IAM::Policy":
                for role in resource["Properties"]["Roles"]:
                    found.setdefault(row_of(role["Ref"]), set()).update(policies[name])
    return found


def row_of(role: str) -> str:
    """The longest row whose words a role's logical id holds."""
    rows = [name for name in ROLES if name in role]
    assert rows, f"docs/security.md has no row for {role}"
    longest: str = max(rows, key=len)
    return longest


def test_every_role_may_what_the_document_says(everything: Synthesized) -> None:
    assert len(AGENT) == 11
    assert allowed(everything) == ROLES


def test_every_role_has_a_reason() -> None:
    assert ROWS and all(len(why) > 20 for _, _, why in ROWS)


def test_the_bootstrap_policy_covers_every_service(everything: Synthesized) -> None:
    services = {action.partition(":")[0] for item in POLICY["Statement"] for action in listed(item["Action"])}
    for template in everything.templates.values():
        for resource in template["Resources"].values():
            owner, service, *_ = resource["Type"].split("::")
            if owner == "AWS" and service not in ("CDK", "CloudFormation"):
                assert IAM_NAMES.get(service, service.lower()) in services, resource["Type"]


def test_the_bootstrap_policy_lets_services_make_their_roles(everything: Synthesized) -> None:
    """The first alarm that stops an instance, group or scaled variant of an account makes its service's role."""
    (statement,) = [item for item in POLICY["Statement"] if item["Action"] == "iam:CreateServiceLinkedRole"]
    services = set(statement["Condition"]["StringEquals"]["iam:AWSServiceName"])
    stops = [item for item in everything.resources("AWS::CloudWatch::Alarm").values() if "ec2:stop" in str(item)]
    assert stops and everything.resources("AWS::ApplicationAutoScaling::ScalableTarget")
    assert {"events.amazonaws.com", "sagemaker.application-autoscaling.amazonaws.com"} <= services
    assert everything.resources("AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert "elasticloadbalancing.amazonaws.com" in services
    assert everything.resources("AWS::AutoScaling::AutoScalingGroup")
    assert "autoscaling.amazonaws.com" in services


def test_the_bootstrap_policy_makes_roles_of_the_stacks_only(everything: Synthesized) -> None:
    for statement in POLICY["Statement"]:
        actions = listed(statement["Action"])
        if any(action.startswith("iam:") for action in actions):
            assert "*" not in "".join(actions)
            assert statement["Resource"] != "*"
    for template in everything.templates.values():
        for resource in template["Resources"].values():
            # Without a name CloudFormation gives it the stack's, which begins with Torchlift-.
            if resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::InstanceProfile"):
                assert not {"RoleName", "InstanceProfileName"} & set(resource["Properties"])
