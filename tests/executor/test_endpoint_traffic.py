"""Variants share the traffic by weight; an update moves it part by part, and an alarm moves it back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stand_in.executor import endpoint_updates
from tests.executor.conftest import World, eventually
from tests.executor.fake_endpoints import configure_variants, create, invoke, settled, update

pytestmark = pytest.mark.usefixtures("ready")
MODES = {"main": "one", "other": "two"}
RETAINING = {"RetainAllVariantProperties": True}
BY_COUNT = {"Type": "INSTANCE_COUNT", "Value": 1}
BY_SHARE = {"Type": "CAPACITY_PERCENT", "Value": 30}


def two(world: World, name: str, *, main: float = 1, other: float = 1, **config: Any) -> str:
    weights = {"main": {"InitialVariantWeight": main}, "other": {"InitialVariantWeight": other}}
    return configure_variants(world, name, weights, modes=MODES, **config)


def answers(world: World, count: int = 40) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(count):
        answer = invoke(world, b"x")
        mode = answer["Body"].read().split()[0].decode()
        found[mode] += 1
    return found


def weights(found: Any) -> dict[str, float]:
    return {one["VariantName"]: one["CurrentWeight"] for one in found["ProductionVariants"]}


def routed(kind: str, **sizes: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": 300, **sizes}
    return {"DeploymentConfig": {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}}


def test_weights_share_the_traffic_and_change_in_place(world: World) -> None:
    create(world, two(world, "config", main=1, other=0))
    assert weights(settled(world)) == {"main": 1, "other": 0}
    assert answers(world) == {"one": 40}
    # A variant without traffic answers whoever asks for it.
    named = invoke(world, b"x", TargetVariant="other")
    assert (named["InvokedProductionVariant"], named["Body"].read()[:3]) == ("other", b"two")
    assert invoke(world, b"x")["InvokedProductionVariant"] == "main"
    changed = [{"VariantName": "main", "DesiredWeight": 0.0}, {"VariantName": "other", "DesiredWeight": 2.0}]
    client = world.client("sagemaker")
    client.update_endpoint_weights_and_capacities(EndpointName="e", DesiredWeightsAndCapacities=changed)
    assert answers(world) == {"two": 40}
    counts = {one["VariantName"]: one["DesiredInstanceCount"] for one in settled(world)["ProductionVariants"]}
    assert counts == {"main": 1, "other": 1}, "a change of weights is none of counts"


def test_what_an_update_retains_and_what_it_takes_over(world: World) -> None:
    """Retained properties hide those of the new configuration, unless they are excluded."""
    captured = {
        "EnableCapture": True, "InitialSamplingPercentage": 100, "DestinationS3Uri": "s3://b/c",
        "CaptureOptions": [{"CaptureMode": "Input"}],
    }  # fmt: skip
    create(world, two(world, "old", main=1, other=0))
    assert "DataCaptureConfig" not in settled(world)
    two(world, "new", main=0, other=1, DataCaptureConfig=captured)
    found = update(world, "new", **RETAINING)
    assert (found["EndpointConfigName"], weights(found)) == ("new", {"main": 1, "other": 0})
    assert "DataCaptureConfig" not in found
    assert answers(world, 10) == {"one": 10}
    two(world, "again", main=0, other=1, DataCaptureConfig=captured)
    excluded = [{"VariantPropertyType": kind} for kind in ("DesiredWeight", "DataCaptureConfig")]
    found = update(world, "again", **RETAINING, ExcludeRetainedVariantProperties=excluded)
    assert weights(found) == {"main": 0, "other": 1}
    assert found["DataCaptureConfig"]["CaptureStatus"] == "Started"
    assert answers(world, 10) == {"two": 10}


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        (routed("ALL_AT_ONCE"), [1.0]),
        (routed("CANARY", CanarySize=BY_SHARE), [0.3, 1.0]),
        (routed("CANARY", CanarySize=BY_COUNT), [0.25, 1.0]),
        (routed("LINEAR", LinearStepSize=BY_SHARE), [0.3, 0.6, 0.9, 1.0]),
        (routed("LINEAR", LinearStepSize=BY_COUNT), [0.25, 0.5, 0.75, 1.0]),
        ({}, [1.0]),
    ],
    ids=["at once", "canary", "canary by count", "linear", "linear by count", "no guardrails"],
)
def test_parts(routing: dict[str, Any], expected: list[float]) -> None:
    parts, bake = endpoint_updates.shares(routing, instances=4)
    assert parts == pytest.approx(expected)
    assert bake == (300 if routing else 0)


@pytest.mark.parametrize("alarm", ["silent", "rings"])
def test_a_canary_answers_beside_the_old_fleet(world: World, monkeypatch: pytest.MonkeyPatch, alarm: str) -> None:
    monkeypatch.setattr(endpoint_updates, "TIME_SCALE", 0.01)  # three seconds a part
    count = {"main": {"InitialInstanceCount": 2}}
    create(world, configure_variants(world, "old", count, modes={"main": "one"}))
    settled(world)
    configure_variants(world, "new", count, modes={"main": "two"})
    how = routed("CANARY", CanarySize={"Type": "CAPACITY_PERCENT", "Value": 50})
    how["DeploymentConfig"]["AutoRollbackConfiguration"] = {"Alarms": [{"AlarmName": "errors"}]}
    world.client("sagemaker").update_endpoint(EndpointName="e", EndpointConfigName="new", **how)

    def both() -> bool:
        return len({invoke(world, b"x")["Body"].read() for _ in range(20)}) == 2

    eventually(both)
    held = world.client("sagemaker").describe_endpoint(EndpointName="e")
    assert (held["EndpointStatus"], held["EndpointConfigName"]) == ("Updating", "old")
    if alarm == "rings":
        ring(world, "errors")
    found = settled(world)
    assert found["EndpointStatus"] == "InService"
    kept = alarm == "rings"
    assert found["EndpointConfigName"] == ("old" if kept else "new")
    assert found.get("FailureReason", "").startswith(endpoint_updates.ROLLED_BACK) == kept
    assert answers(world, 20) == {"one" if kept else "two": 20}


def ring(world: World, name: str) -> None:
    watch = world.client("cloudwatch")
    watch.put_metric_alarm(
        AlarmName=name, MetricName="m", Namespace="n", Statistic="Sum", Period=60, EvaluationPeriods=1, Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )  # fmt: skip
    watch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a test says so")
