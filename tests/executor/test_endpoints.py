"""An endpoint is in service when a real invocation was answered; a failed update changes nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import psutil
import pytest

from tests.executor.conftest import REGION, World, eventually
from tests.executor.fake_endpoints import IMAGE, configure, create, invoke, refused, settled

AT_ONCE = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
REGISTRY = f"123456789012.dkr.ecr.{REGION}.amazonaws.com"
pytestmark = pytest.mark.usefixtures("ready")


def test_in_service_only_after_an_invocation(world: World, ready: Path) -> None:
    ready.unlink()
    create(world, configure(world, "config"))
    eventually(lambda: world.executor.state()["processes"])
    assert world.client("sagemaker").describe_endpoint(EndpointName="e")["EndpointStatus"] == "Creating"
    error = refused(world, b"x")["Error"]
    assert error["Code"] == "ValidationError" and "Endpoint e of account 123456789012 not found" in error["Message"]
    ready.touch()
    assert settled(world)["EndpointStatus"] == "InService"
    answer = invoke(world, b"x", ContentType="text/csv")
    assert answer["Body"].read() == b"one text/csv x"
    assert (answer["ContentType"], answer["InvokedProductionVariant"]) == ("text/x-answer", "main")
    shown = world.executor.state()["endpoints"][0]
    assert shown["url"].startswith("http://127.0.0.1:")
    del shown["url"]
    assert shown == {
        "name": "e", "program": "Fake", "version": "1", "model": "config", "state": "InService", "invocations": 1
    }  # fmt: skip


def test_the_models_errors(world: World) -> None:
    create(world, configure(world, "config"))
    settled(world)
    client_side = refused(world, b"refuse")
    assert client_side["Error"]["Code"] == "ModelError"
    assert client_side["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert client_side["OriginalStatusCode"] == 400
    assert json.loads(client_side["OriginalMessage"]) == {"error": "no such input"}
    assert client_side["LogStreamArn"].endswith("log-group:/aws/sagemaker/Endpoints/e")
    assert "Received client error (400) from primary with message" in client_side["Error"]["Message"]
    server_side = refused(world, b"break")
    assert (server_side["OriginalStatusCode"], server_side["OriginalMessage"]) == (500, "out of luck")
    assert "Received server error (500)" in server_side["Error"]["Message"]


def test_a_model_that_cannot_be_loaded(world: World) -> None:
    create(world, configure(world, "config", "broken"))
    found = settled(world)
    assert found["EndpointStatus"] == "Failed"
    assert "did not pass the ping health check" in found["FailureReason"]
    assert "this model cannot be loaded" in found["FailureReason"]
    assert world.executor.state()["endpoints"][0]["state"] == "Failed"
    assert world.executor.state()["processes"] == []
    world.client("sagemaker").delete_endpoint(EndpointName="e")
    assert world.executor.state()["endpoints"] == []


@pytest.mark.parametrize(
    ("image", "container", "reason"),
    [
        (IMAGE, {"ModelDataUrl": "s3://no-such-bucket/model.tar.gz"}, 'from URL: "s3://no-such-bucket/model.tar.gz"'),
        (f"{REGISTRY}/fake-serving:none", {}, f"Requested image {REGISTRY}/fake-serving:none not found"),
        ("elsewhere/unknown:1", {}, "direct mode has no program for the image"),
    ],
    ids=["model data", "image", "program"],
)
def test_what_is_missing_is_named(world: World, image: str, container: dict[str, str], reason: str) -> None:
    create(world, configure(world, "config", image=image, **container))
    found = settled(world)
    assert found["EndpointStatus"] == "Failed" and reason in found["FailureReason"]


def test_an_update_swaps_when_the_new_server_answers(world: World, ready: Path) -> None:
    create(world, configure(world, "old"))
    settled(world)
    ready.unlink()
    configure(world, "new", "two")
    slow: list[bytes] = []
    thread = threading.Thread(target=lambda: slow.append(invoke(world, b"slow")["Body"].read()))
    world.client("sagemaker").update_endpoint(EndpointName="e", EndpointConfigName="new")
    eventually(lambda: len(world.executor.state()["processes"]) == 2)
    assert invoke(world, b"x")["Body"].read().startswith(b"one")
    thread.start()
    eventually(lambda: world.executor.state()["endpoints"][0]["invocations"] == 2)
    ready.touch()
    found = settled(world)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", "new")
    assert "FailureReason" not in found
    assert invoke(world, b"x")["Body"].read().startswith(b"two")
    thread.join()
    # An invocation that was under way when the servers were swapped is still answered.
    assert slow[0].startswith(b"one")
    eventually(lambda: len(world.executor.state()["processes"]) == 1)


def test_a_failed_update_keeps_the_old_server(world: World) -> None:
    create(world, configure(world, "old"))
    settled(world)
    configure(world, "new", "broken")
    world.client("sagemaker").update_endpoint(EndpointName="e", EndpointConfigName="new")
    found = settled(world)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", "old")
    assert "this model cannot be loaded" in found["FailureReason"]
    assert invoke(world, b"x")["Body"].read().startswith(b"one")


def test_deletion_ends_the_server_at_any_time(world: World, ready: Path) -> None:
    configure(world, "config")
    for in_service in (False, True):
        ready.touch() if in_service else ready.unlink()
        create(world, "config")
        pid = eventually(lambda: world.executor.state()["processes"])[0]["pid"]
        if in_service:
            settled(world)
        world.client("sagemaker").delete_endpoint(EndpointName="e")
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)
        assert not psutil.pid_exists(pid)
        assert refused(world, b"x")["Error"]["Code"] == "ValidationError"


def test_a_server_that_died_is_an_error_of_the_model(world: World) -> None:
    create(world, configure(world, "config"))
    settled(world)
    psutil.Process(world.executor.state()["processes"][0]["pid"]).kill()
    eventually(lambda: refused(world, b"x")["OriginalStatusCode"] == 503)


def test_an_update_keeps_what_it_is_told_to(world: World) -> None:
    client = world.client("sagemaker")
    create(world, configure(world, "old"))
    settled(world)
    scaled = {"VariantName": "main", "DesiredInstanceCount": 3}
    client.update_endpoint_weights_and_capacities(EndpointName="e", DesiredWeightsAndCapacities=[scaled])
    configure(world, "new", "two")
    client.update_endpoint(EndpointName="e", EndpointConfigName="new", RetainAllVariantProperties=True)
    found = settled(world)
    assert (found["EndpointConfigName"], found["ProductionVariants"][0]["DesiredInstanceCount"]) == ("new", 3)
    client.update_endpoint(EndpointName="e", EndpointConfigName="old")
    assert settled(world)["ProductionVariants"][0]["DesiredInstanceCount"] == 1


def test_an_alarm_undoes_an_update(world: World) -> None:
    create(world, configure(world, "old"))
    settled(world)
    configure(world, "new", "two")
    watch = world.client("cloudwatch")
    watch.put_metric_alarm(
        AlarmName="errors", MetricName="m", Namespace="n", Statistic="Sum", Period=60, EvaluationPeriods=1, Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )  # fmt: skip
    watch.set_alarm_state(AlarmName="errors", StateValue="ALARM", StateReason="a test says so")
    world.client("sagemaker").update_endpoint(
        EndpointName="e", EndpointConfigName="new",
        DeploymentConfig={
            "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": AT_ONCE},
            "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "errors"}]},
        },
    )  # fmt: skip
    found = settled(world)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", "old")
    assert "errors" in found["FailureReason"]
    assert invoke(world, b"x")["Body"].read().startswith(b"one")
