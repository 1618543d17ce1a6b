"""The stand-in knows every type and property of the app's templates, in all variants that synthesize."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stand_in.cloudformation import resources as _resources  # noqa: F401 - registers the providers
from stand_in.cloudformation.registry import check_properties
from stand_in.cloudformation.template import parse_template
from tests.stacks.synthesis import Synthesized
from tests.stand_in.conftest import ROOT

VARIANTS: dict[str, dict[str, object]] = {
    "interactive": {"training.mode": "interactive"},
    "budget": {"budget.monthly_usd": 100, "budget.email": "a@example.com"},
}


def check(template: dict[str, Any]) -> None:
    for name, resource in template["Resources"].items():
        check_properties(name, resource["Type"], resource.get("Properties", {}))


def test_shipped_deployments(deployment: Synthesized) -> None:
    for template in deployment.templates.values():
        check(template)


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_variants(synthesize: Callable[..., Synthesized], variant: str) -> None:
    templates = synthesize("dev", VARIANTS[variant]).templates
    for template in templates.values():
        check(template)
    kinds = {resource["Type"] for template in templates.values() for resource in template["Resources"].values()}
    assert {"interactive": "AWS::EC2::Instance", "budget": "AWS::Budgets::Budget"}[variant] in kinds


def test_the_bootstrap_template() -> None:
    path: Path = ROOT / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml"
    template = parse_template(path.read_text())
    for name, spec in template.resources.items():
        check_properties(name, spec.type, spec.properties)
