"""The dashboard: nothing overlaps, every alarm and threshold is on it, and docs/dashboard.svg is its picture."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from settings import REPO_ROOT
from tests.settings.mistakes import challenger
from tests.stacks.dashboards import body, picture
from tests.stacks.synthesis import Synthesized

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")

PICTURE = REPO_ROOT / "docs/dashboard.svg"
KIND = "AWS::CloudWatch::Dashboard"


def widgets(assembly: Synthesized, kind: str) -> list[dict[str, Any]]:
    return [item for item in body(assembly.one(KIND))["widgets"] if item["type"] == kind]


def lines_of(assembly: Synthesized) -> dict[str, dict[str, float]]:
    """{title of a graph: {label: value}}"""
    return {
        item["properties"]["title"]: {
            line["label"]: line["value"] for line in item["properties"].get("annotations", {}).get("horizontal", [])
        }
        for item in widgets(assembly, "metric")
    }


def endpoint_alarms(assembly: Synthesized) -> dict[str, dict[str, Any]]:
    """{logical id: properties} of the endpoint's alarms."""
    return {name: item["Properties"] for name, item in assembly.resources("AWS::CloudWatch::Alarm", "Graviton").items()}


def test_the_grid_is_full_and_nothing_overlaps(deployment: Synthesized) -> None:
    taken: dict[tuple[int, int], str] = {}
    for number, item in enumerate(body(deployment.one(KIND))["widgets"]):
        assert item["x"] + item["width"] <= 24
        for x, y in itertools.product(
            range(item["x"], item["x"] + item["width"]), range(item["y"], item["y"] + item["height"])
        ):
            assert taken.setdefault((x, y), str(number)) == str(number)
    rows = max(y for _, y in taken) + 1
    assert len(taken) == 24 * rows, "no holes"


def test_every_alarm_of_the_endpoint_is_on_it(deployment: Synthesized) -> None:
    (status,) = widgets(deployment, "alarm")
    shown = {arn.rpartition(":")[2] for arn in status["properties"]["alarms"]}
    assert shown == set(endpoint_alarms(deployment)) and len(shown) >= 8


def test_thresholds_are_the_alarms(deployment: Synthesized) -> None:
    thresholds = {
        item["AlarmName"].removeprefix(deployment.one("AWS::SageMaker::Endpoint")["EndpointName"] + "-"): item[
            "Threshold"
        ]
        for item in endpoint_alarms(deployment).values()
    }
    shown = lines_of(deployment)
    assert shown["Model latency, ms"] == {"alarm, p99": thresholds["latency"] / 1000}
    assert shown["SageMaker's own latency, ms"] == {"alarm, p99": thresholds["overhead"] / 1000}
    assert shown["Errors a minute"] == {"alarm, 5XX": thresholds["server-errors"]}
    assert shown["Refused (4XX), % of invocations"] == {"alarm": thresholds["client-errors"]}
    (cpu,) = (lines for title, lines in shown.items() if title.startswith("CPU"))
    assert cpu["alarm"] == thresholds["cpu"] > cpu["scaling target"]


def test_scaling_targets_and_limits(deployment: Synthesized) -> None:
    target = deployment.one("AWS::ApplicationAutoScaling::ScalableTarget")
    shown = lines_of(deployment)
    assert shown["Instances"] == {"fewest": target["MinCapacity"], "most": target["MaxCapacity"]}
    targets = {
        item["Properties"]["TargetTrackingScalingPolicyConfiguration"]["TargetValue"]
        for item in deployment.resources("AWS::ApplicationAutoScaling::ScalingPolicy").values()
    }
    (cpu,) = (lines for title, lines in shown.items() if title.startswith("CPU"))
    assert {shown["Invocations a minute and instance"]["scaling target"], cpu["scaling target"]} == targets


def test_log_groups_exist(deployment: Synthesized) -> None:
    (shown,) = widgets(deployment, "log")
    declared = {item["Properties"].get("LogGroupName") for item in deployment.resources("AWS::Logs::LogGroup").values()}
    named = [part.strip().removeprefix("SOURCE ").strip("'") for part in shown["properties"]["query"].split("|")]
    groups = [name for name in named if name.startswith("/")]
    assert len(groups) >= 4 and set(groups) <= declared


def test_its_page_is_an_output(deployment: Synthesized) -> None:
    name = deployment.one(KIND)["DashboardName"]
    output = json.dumps(deployment.templates["Graviton"]["Outputs"]["SentimentDashboardUrl"]["Value"])
    assert f"#dashboards/dashboard/{name}" in output


def test_several_variants_are_told_apart(synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("dev", challenger())
    variants = {item["VariantName"] for item in made.one("AWS::SageMaker::EndpointConfig")["ProductionVariants"]}
    assert len(variants) == 2
    for item in widgets(made, "metric"):
        if item["properties"]["title"].startswith("Training"):
            continue
        text = json.dumps(item["properties"]["metrics"])
        assert all(f'"{variant}"' in text for variant in variants), item["properties"]["title"]
        ids = [
            line[-1]["id"] for line in item["properties"]["metrics"] if isinstance(line[-1], dict) and "id" in line[-1]
        ]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("there", [True, False])
def test_training_is_shown_when_there_is_one(there: bool, synthesize: Callable[..., Synthesized]) -> None:
    skip = {
        "training.mode": "skip",
        "training.weights_uri": "s3://weights/roberta/",
        "training.base_model": None,
        "training.data": None,
    }
    made = synthesize("dev", {} if there else skip)
    assert any(title.startswith("Training") for title in lines_of(made)) is there


def test_the_picture_is_the_template(prod: Synthesized) -> None:
    alarms = {name: item["AlarmName"] for name, item in endpoint_alarms(prod).items()}
    drawn = picture(body(prod.one(KIND)), alarms)
    if os.environ.get("TORCHLIFT_WRITE_DOCS"):
        PICTURE.write_text(drawn)
    assert PICTURE.read_text() == drawn, "run this test with TORCHLIFT_WRITE_DOCS=1 and look at docs/dashboard.svg"
