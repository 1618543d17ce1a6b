"""Bounds of the smaller constructs."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Match, Template

from torchlift import permissions
from torchlift.account_budget import AccountBudget
from torchlift.endpoint_variants import Fleet
from torchlift.job_scope import job_scope, suffix
from torchlift.network import ExistingNetwork

FLEET: dict[str, Any] = {
    "instance_type": "ml.c7g.xlarge",
    "minimum": 1,
    "initial": 1,
    "maximum": 2,
    "invocations_per_instance": 100.0,
    "cpu_target_percent": 70,
    "scale_in_cooldown_seconds": 600,
    "scale_out_cooldown_seconds": 60,
    "health_check_timeout_seconds": 300,
    "model_download_timeout_seconds": 600,
}


@pytest.mark.parametrize("changes", [{"minimum": 0}, {"initial": 3}, {"minimum": 2}, {"maximum": 0}])
def test_fleets_that_cannot_be(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must hold"):
        Fleet(**{**FLEET, **changes})


@pytest.mark.parametrize("hash", ["", "0123", "0123456789ABCDEF", "0123456789abcdef0"])
def test_hash_of_a_scope(hash: str) -> None:
    with pytest.raises(ValueError, match="16 hexadecimal"):
        job_scope(cdk.Stack(), job="x", hash=hash, workload="w", details={})


def test_details_are_part_of_the_path() -> None:
    stack = cdk.Stack()
    scopes = [
        job_scope(cdk.aws_iam.Group(stack, f"G{size}"), job="x", hash="0" * 16, workload="w", details={"size": size})
        for size in (1, 2)
    ]
    assert suffix(scopes[0]).startswith("0" * 16 + "-")
    assert suffix(scopes[0]) != suffix(scopes[1])


def test_existing_network_knows_its_zones() -> None:
    network = ExistingNetwork(
        cdk.Stack(), "Network", vpc_id="vpc-1", cidr="10.0.0.0/16", zones=["a", "b"], subnet_ids=["s-a", "s-b"]
    )
    assert [subnet.subnet_id for subnet in network.subnets_in(["b"])] == ["s-b"]
    assert [subnet.subnet_id for subnet in network.subnets_in(["b", "a"])] == ["s-a", "s-b"]
    with pytest.raises(ValueError, match="no subnet in c"):
        network.subnets_in(["a", "c"])


def test_budget_is_over_the_account_and_told_twice() -> None:
    """By tag it would show nothing until somebody activated the tag for billing."""
    stack = cdk.Stack()
    AccountBudget(stack, "Budget", monthly_usd=100, email="a@example.com", topic_arn="arn:topic")
    template = Template.from_stack(stack)
    template.has_resource_properties("AWS::Budgets::Budget", {"Budget": {"CostFilters": Match.absent()}})
    (budget,) = template.find_resources("AWS::Budgets::Budget").values()
    notifications = budget["Properties"]["NotificationsWithSubscribers"]
    assert [item["Notification"]["Threshold"] for item in notifications] == [80, 100]
    assert all(len(item["Subscribers"]) == 2 for item in notifications)


@pytest.mark.parametrize(
    ("uri", "end"),
    [
        ("763104351884.dkr.ecr.us-west-2.amazonaws.com/a-b:2.10", ":ecr:us-west-2:763104351884:repository/a-b"),
        ("763104351884.dkr.ecr.us-west-2.amazonaws.com/a/b@sha256:00", ":ecr:us-west-2:763104351884:repository/a/b"),
        ("public.ecr.aws/docker/library/python:3.13", None),
        ("python", None),
    ],
)
def test_repository_of_an_image(uri: str, end: str | None) -> None:
    arn = permissions.registry_repository_arn(uri)
    assert arn is None if end is None else str(arn).endswith(end)


def test_instances_pull_from_ecr_only() -> None:
    with pytest.raises(ValueError, match="no ECR image"):
        permissions.repository_arn("python:3.13", None)
