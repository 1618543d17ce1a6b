"""Which stack needs which, and what ties them together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.stacks.synthesis import Synthesized

EXPORTED = {
    "AWS::EC2::VPC": "the network",
    "AWS::EC2::Subnet": "the network",
    "AWS::EC2::SecurityGroup": "the network: SageMaker's interfaces outlive the endpoint's stack",
    "AWS::KMS::Key": "the key",
    "AWS::S3::Bucket": "the bucket",
    "AWS::ECR::Repository": "the repositories",
    "AWS::SNS::Topic": "where alarms report",
}
"""What may be exported: an export in use can be neither changed nor removed, so only what never changes."""

VARIANTS: dict[str, dict[str, object]] = {
    "as shipped": {},
    "no training": {"training": None, "sentiment": None},
    "no endpoint": {"sentiment": None},
    "no text encoding": {"text_encoding": None},
    "no question answering": {"question_answering": None},
    "skip": {
        "training.mode": "skip",
        "training.weights_uri": "s3://weights/roberta/",
        "training.base_model": None,
        "training.data": None,
    },
    "interactive": {"training.mode": "interactive"},
    "one zone": {"training.zones": ["us-west-2b"]},
    "other hyperparameters": {"training.learning_rate": 2e-5},
}


def test_graph(deployment: Synthesized) -> None:
    assert deployment.dependencies() == {
        "Foundation": set(),
        "Training": {"Foundation"},
        "Graviton": {"Foundation", "Training"},
        "MultiModel": {"Foundation"},
        "Inferentia": {"Foundation"},
    }


def test_graph_without_training_jobs(synthesize: Callable[..., Synthesized]) -> None:
    assert synthesize("dev", VARIANTS["skip"]).dependencies() == {
        "Foundation": set(),
        "Training": {"Foundation"},
        "Graviton": {"Foundation", "Training"},
        "MultiModel": {"Foundation"},
        "Inferentia": {"Foundation"},
    }


def test_foundation_refers_to_no_other_stack(deployment: Synthesized) -> None:
    text = json.dumps(deployment.templates["Foundation"])
    assert "Fn::ImportValue" not in text
    assert "-Training" not in text
    assert "-Graviton" not in text
    assert "-MultiModel" not in text
    assert "-Inferentia" not in text


def test_only_foundation_exports_and_only_what_never_changes(deployment: Synthesized) -> None:
    for stack, template in deployment.templates.items():
        exported = [item for item in template.get("Outputs", {}).values() if "Export" in item]
        assert bool(exported) == (stack == "Foundation")
        for output in exported:
            reference = output["Value"].get("Ref") or output["Value"]["Fn::GetAtt"][0]
            assert template["Resources"][reference]["Type"] in EXPORTED
            assert not re.search(r"[0-9a-f]{16}", output["Export"]["Name"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_exports_are_the_same_whatever_is_imported(variant: str, synthesize: Callable[..., Synthesized]) -> None:
    """An export that goes while a deployed stack still imports it makes every further deployment fail."""
    changed = synthesize("dev", VARIANTS[variant]).templates["Foundation"]
    assert changed["Outputs"] == synthesize().templates["Foundation"]["Outputs"]


@pytest.mark.parametrize(
    ("changes", "stacks"),
    [
        (
            {"training": None, "sentiment": None, "text_encoding": None, "question_answering": None},
            {"Foundation"},
        ),
        ({"training": None, "sentiment": None, "question_answering": None}, {"Foundation", "MultiModel"}),
        ({"training": None, "sentiment": None, "text_encoding": None}, {"Foundation", "Inferentia"}),
        ({"sentiment": None, "text_encoding": None, "question_answering": None}, {"Foundation", "Training"}),
    ],
)
def test_a_workload_without_a_section_has_no_stack(
    changes: dict[str, object], stacks: set[str], synthesize: Callable[..., Synthesized]
) -> None:
    assert set(synthesize("dev", changes).templates) == stacks


def test_stacks_are_protected_unless_ephemeral(dev: Synthesized, prod: Synthesized) -> None:
    for assembly, protected in ((dev, False), (prod, True)):
        stacks = [item for item in assembly.manifest["artifacts"].values() if item["type"].endswith(":stack")]
        assert {item["properties"]["terminationProtection"] for item in stacks} == {protected}


def test_an_account_in_the_settings_is_the_only_one(synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("dev", {"deployment.account": "123456789012"})
    stacks = [item for item in made.manifest["artifacts"].values() if item["type"].endswith(":stack")]
    assert {item["environment"] for item in stacks} == {"aws://123456789012/us-west-2"}
    assert made.manifest.get("missing") is None
