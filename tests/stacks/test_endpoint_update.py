"""How the endpoint is updated, what it captures, and which versions it serves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam

from tests.settings.mistakes import CANARY, ENDPOINT, LINEAR, UPDATE, VERSION, challenger
from tests.stacks.synthesis import Synthesized, statements
from torchlift.endpoint_update import UpdatePolicy

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")

Synthesize = Callable[..., Synthesized]
OTHER = "fedcba9876543210"


@pytest.mark.parametrize(
    ("changes", "kind", "size", "waits"),
    [
        ({}, "ALL_AT_ONCE", {}, 1),
        (CANARY, "CANARY", {"CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50}}, 2),
        (LINEAR, "LINEAR", {"LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 10}}, 10),
    ],
)
def test_traffic(
    changes: dict[str, object], kind: str, size: dict[str, Any], waits: int, synthesize: Synthesize
) -> None:
    made = synthesize("dev", {**changes, f"{UPDATE}.bake_seconds": 1200})
    policy = made.one("AWS::SageMaker::Endpoint")["DeploymentConfig"]["BlueGreenUpdatePolicy"]
    assert policy["TrafficRoutingConfiguration"] == {"Type": kind, "WaitIntervalInSeconds": 1200, **size}
    # SageMaker gives up at this time, whatever it is doing: all waits and the start of the new fleet must fit.
    assert waits * 1200 + 1800 <= policy["MaximumExecutionTimeoutInSeconds"] <= 28800


def test_a_fix_can_be_deployed_while_an_alarm_rings(synthesize: Synthesize) -> None:
    made = synthesize("dev", {**CANARY, f"{UPDATE}.auto_rollback": False})
    config = made.one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    assert "AutoRollbackConfiguration" not in config
    assert config["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]["Type"] == "CANARY"
    assert made.resources("AWS::CloudWatch::Alarm")


def test_more_alarms_than_sagemaker_watches() -> None:
    policy = UpdatePolicy(
        traffic="all-at-once", step_percent=None, bake_seconds=0, longest_seconds=3600, auto_rollback=True
    )
    with pytest.raises(ValueError, match="watches 10 alarms"):
        policy.render([f"alarm-{number}" for number in range(11)])


def test_nothing_is_captured_unless_asked(deployment: Synthesized) -> None:
    assert "DataCaptureConfig" not in deployment.one("AWS::SageMaker::EndpointConfig")
    assert "captured/" not in json.dumps(deployment.templates)


def test_captures_lie_encrypted_under_one_prefix_and_expire(synthesize: Synthesize) -> None:
    made = synthesize("dev", {f"{ENDPOINT}.data_capture": {"sampling_percent": 20, "keep_days": 9}})
    capture = made.one("AWS::SageMaker::EndpointConfig")["DataCaptureConfig"]
    assert capture["EnableCapture"] is True
    assert capture["InitialSamplingPercentage"] == 20
    assert capture["DestinationS3Uri"]["Fn::Join"][1][-1] == "/captured/sentiment"
    assert "KmsKeyId" in capture
    assert [item["CaptureMode"] for item in capture["CaptureOptions"]] == ["Input", "Output"]
    # Without the header SageMaker keeps base64, which nobody can search.
    assert capture["CaptureContentTypeHeader"] == {"JsonContentTypes": ["application/json"]}
    written = [item for _, item in statements(made.templates["Graviton"]) if item["Action"] == "s3:PutObject"]
    assert [item["Resource"]["Fn::Join"][1][-1] for item in written] == ["/captured/sentiment/*"]
    rules = made.one("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    assert [item["ExpirationInDays"] for item in rules if item.get("Prefix") == "captured/sentiment/"] == [9]


def test_a_version_is_served_without_training(synthesize: Synthesize) -> None:
    made = synthesize("dev", {"training.mode": "skip", "sentiment.version": VERSION})
    assert {item["Type"] for item in made.templates["Training"]["Resources"].values()} == {"AWS::SSM::Parameter"}
    start = made.one("Custom::StartJob", "Graviton", containing="Package")
    entry = start["Environment"]["TORCHLIFT_INPUTS"]["Fn::Join"][1]
    # Not `weights=plain+s3://`: what a job published is verified against its manifest.
    assert (entry[0], entry[-1]) == ("weights=s3://", f"/weights/sentiment/{VERSION}/")


def test_a_version_takes_the_place_of_what_training_makes(synthesize: Synthesize) -> None:
    """The training stack is the same: going back to a version trains nothing, and neither does coming from it."""
    made = synthesize("dev", {"sentiment.version": VERSION})
    assert made.templates["Training"] == synthesize().templates["Training"]
    assert f"/weights/sentiment/{VERSION}/" in json.dumps(made.templates["Graviton"])
    name = made.one("AWS::SageMaker::Endpoint")["EndpointName"]
    assert name == synthesize().one("AWS::SageMaker::Endpoint")["EndpointName"]


def endpoint_name(made: Synthesized) -> str:
    return str(made.one("AWS::SageMaker::Endpoint")["EndpointName"])


def test_a_challenger_is_another_endpoint_with_two_of_everything(synthesize: Synthesize) -> None:
    """SageMaker refuses other variant names in a guarded update, and the removal of an autoscaled variant."""
    made = synthesize("dev", challenger())
    name = endpoint_name(made)
    assert re.fullmatch(r"torchlift-dev-sentiment-c7g-4xlarge-[0-9a-f]{8}", name)
    main, other = made.one("AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert (main["VariantName"], main["InitialVariantWeight"]) == ("AllTraffic", 1)
    assert (other["VariantName"], other["InitialVariantWeight"], other["InitialInstanceCount"]) == ("next", 0.1, 1)
    assert main["ModelName"] != other["ModelName"]
    archives = {
        item["Properties"]["PrimaryContainer"]["ModelDataUrl"]["Fn::Join"][1][-1]
        for item in made.resources("AWS::SageMaker::Model").values()
    }
    assert len(archives) == 2
    packages = [item for name, item in made.resources("Custom::StartJob", "Graviton").items() if "Package" in name]
    assert len(packages) == 2
    targets = made.resources("AWS::ApplicationAutoScaling::ScalableTarget").values()
    assert {item["Properties"]["ResourceId"] for item in targets} == {
        f"endpoint/{name}/variant/{variant}" for variant in ("AllTraffic", "next")
    }
    alarms = [item["Properties"] for item in made.resources("AWS::CloudWatch::Alarm", "Graviton").values()]
    assert len({alarm["AlarmName"] for alarm in alarms}) == len(alarms)
    before = synthesize().templates["Graviton"]["Resources"]
    kinds = ("AWS::SageMaker", "AWS::CloudWatch::Alarm")
    mine = [key for key, item in before.items() if item["Type"].startswith(kinds)]
    assert not set(mine) & set(made.templates["Graviton"]["Resources"])


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"weight": 0.5}, True),
        ({"version": OTHER}, True),
        ({"max_instances": 3}, True),
        ({"name": "other"}, False),
        ({"instance_type": "ml.c7g.2xlarge"}, False),
    ],
)
def test_only_names_and_types_of_variants_make_another_endpoint(
    changes: dict[str, object], same: bool, synthesize: Synthesize
) -> None:
    before, after = synthesize("dev", challenger()), synthesize("dev", challenger(**changes))
    assert (endpoint_name(before) == endpoint_name(after)) == same


def test_a_challenger_of_the_served_version_shares_its_package(synthesize: Synthesize) -> None:
    made = synthesize("dev", {"sentiment.version": VERSION, **challenger()})
    assert len([name for name in made.resources("Custom::StartJob", "Graviton") if "Package" in name]) == 1
    assert len(made.resources("AWS::SageMaker::Model")) == 2


def test_a_challenger_gets_the_threads_of_its_own_type(synthesize: Synthesize) -> None:
    made = synthesize("dev", challenger(instance_type="ml.c7g.2xlarge"))
    threads = {
        item["Properties"]["PrimaryContainer"]["Environment"]["OMP_NUM_THREADS"]
        for item in made.resources("AWS::SageMaker::Model").values()
    }
    assert threads == {"4", "2"}


def test_invoking_can_be_granted(synthesize: Synthesize, tmp_path: Any) -> None:
    from settings import load_settings
    from stacks.foundation import Foundation
    from stacks.graviton import Graviton
    from stacks.training import Training

    app = cdk.App(outdir=str(tmp_path))
    settings = load_settings("dev")
    assert settings.training is not None and settings.sentiment is not None
    foundation = Foundation(app, settings=settings)
    training = Training(app, settings=settings, training=settings.training, foundation=foundation)
    graviton = Graviton(app, settings=settings, sentiment=settings.sentiment, foundation=foundation, training=training)
    client = iam.Role(graviton, "Client", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    graviton.endpoint.grant_invoke(client)
    made = cdk.assertions.Template.from_stack(graviton).to_json()
    (granted,) = [item for name, item in statements(made) if name.startswith("Client")]
    (endpoint,) = [key for key, item in made["Resources"].items() if item["Type"] == "AWS::SageMaker::Endpoint"]
    assert granted["Action"] == "sagemaker:InvokeEndpoint"
    assert granted["Resource"] == {"Ref": endpoint}
