"""Which changes are verified, and what waits for it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.settings.mistakes import ENDPOINT, UPDATE, VERSION, challenger
from tests.stacks.synthesis import Synthesized, statements

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")

Synthesize = Callable[..., Synthesized]


def verification(made: Synthesized) -> str:
    (name,) = made.resources("Custom::VerifyEndpoint")
    return name


def configuration(made: Synthesized) -> str:
    """Models and configuration as the template has them."""
    resources = made.templates["Graviton"]["Resources"]
    return json.dumps(
        [
            item["Properties"]
            for item in resources.values()
            if item["Type"] in ("AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig")
        ]
    )


@pytest.mark.parametrize(
    ("changes", "verified"),
    [
        ({"sentiment.version": VERSION}, True),
        ({f"{ENDPOINT}.workers": 2}, True),
        ({f"{ENDPOINT}.initial_instances": 2}, True),
        ({f"{ENDPOINT}.kms": False}, True),
        ({f"{ENDPOINT}.weight": 2}, True),
        ({f"{ENDPOINT}.health_check_timeout_seconds": 200}, True),
        ({f"{ENDPOINT}.data_capture": {"sampling_percent": 5}}, True),
        ({f"{ENDPOINT}.instance_type": "ml.c7g.2xlarge"}, True),
        (challenger(), True),
        ({"deployment.owner": "others"}, False),
        ({f"{ENDPOINT}.latency_p99_ms_alarm": 300}, False),
        ({f"{ENDPOINT}.max_instances": 5}, False),
        ({f"{ENDPOINT}.invocations_per_instance": 9}, False),
        ({f"{UPDATE}.bake_seconds": 9}, False),
        ({"logs.retention_days": 7}, False),
    ],
)
def test_a_configuration_is_verified_when_it_is_new(
    changes: dict[str, object], verified: bool, synthesize: Synthesize
) -> None:
    before, after = synthesize(), synthesize("dev", changes)
    assert (verification(before) != verification(after)) == verified
    assert (configuration(before) != configuration(after)) == verified


def test_clients_learn_of_an_endpoint_that_was_verified(deployment: Synthesized) -> None:
    (parameter,) = deployment.resources("AWS::SSM::Parameter", "Graviton").values()
    assert verification(deployment) in parameter["DependsOn"]


def test_the_endpoint_is_there_before_it_is_asked(deployment: Synthesized) -> None:
    (verified,) = deployment.resources("Custom::VerifyEndpoint").values()
    (endpoint,) = deployment.resources("AWS::SageMaker::Endpoint")
    assert endpoint in verified["DependsOn"]
    resources = deployment.templates["Graviton"]["Resources"]
    assert "AWS::IAM::Policy" in {resources[name]["Type"] for name in verified["DependsOn"]}


def test_every_variant_is_asked_what_its_own_archive_knows(synthesize: Synthesize) -> None:
    made = synthesize("dev", challenger())
    variants = made.one("Custom::VerifyEndpoint")["Variants"]
    assert [item["Name"] for item in variants] == ["AllTraffic", "next"]
    archives = {
        item["Properties"]["PrimaryContainer"]["ModelDataUrl"]["Fn::Join"][1][-1].removesuffix("model.tar.gz")
        for item in made.resources("AWS::SageMaker::Model").values()
    }
    assert {item["Probe"]["Fn::Join"][1][-1].removesuffix("probe.json") for item in variants} == archives


def test_it_may_ask_this_endpoint_only(deployment: Synthesized) -> None:
    name = deployment.one("AWS::SageMaker::Endpoint")["EndpointName"]
    (allowed,) = [
        item for _, item in statements(deployment.templates["Graviton"]) if "sagemaker:InvokeEndpoint" in item["Action"]
    ]
    assert set(allowed["Action"]) == {"sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"}
    assert json.dumps(allowed["Resource"]).endswith(f':endpoint/{name}"]]}}')
