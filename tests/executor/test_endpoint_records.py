"""What SageMaker keeps of invocations: captured data in S3, metrics in CloudWatch. And its network interfaces."""

from __future__ import annotations

import base64
import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stand_in.executor import endpoint_interfaces
from tests.executor.conftest import ROLE, World, eventually
from tests.executor.fake_endpoints import configure, configure_variants, create, invoke, refused, settled

pytestmark = pytest.mark.usefixtures("ready")
FILE = re.compile(r"in/e/main/\d{4}/\d\d/\d\d/\d\d/\d\d-\d\d-\d{3}-[0-9a-f-]{36}\.jsonl")


def capturing(percent: int, **more: Any) -> dict[str, Any]:
    return {
        "EnableCapture": True, "InitialSamplingPercentage": percent, "DestinationS3Uri": "s3://captured/in/",
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
        "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]}, **more,
    }  # fmt: skip


def captured(world: World) -> list[dict[str, Any]]:
    client = world.client("s3")
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="captured").get("Contents", ())]
    assert all(FILE.fullmatch(key) for key in keys), keys
    bodies = [client.get_object(Bucket="captured", Key=key)["Body"].read().decode() for key in keys]
    return [json.loads(line) for body in bodies for line in body.splitlines()]


def serve(world: World, capture: dict[str, Any]) -> None:
    world.client("s3").create_bucket(Bucket="captured", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    create(world, configure_variants(world, "c", {"main": {}}, modes={"main": "one"}, DataCaptureConfig=capture))
    settled(world)


def test_captured_lines(world: World) -> None:
    serve(world, capturing(100))
    for body in (b'{"inputs": "a"}', b"refuse", b'{"inputs": "b"}'):
        if body == b"refuse":
            refused(world, body)
        else:
            invoke(world, body, ContentType="application/json; charset=utf-8")
    lines = eventually(lambda: len(captured(world)) == 2 and captured(world))
    given = {line["captureData"]["endpointInput"]["data"] for line in lines}
    assert given == {'{"inputs": "a"}', '{"inputs": "b"}'}
    for line in lines:
        assert line["eventVersion"] == "0"
        datetime.strptime(line["eventMetadata"]["inferenceTime"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        request, answer = line["captureData"]["endpointInput"], line["captureData"]["endpointOutput"]
        assert (request["mode"], request["encoding"]) == ("INPUT", "JSON")
        assert request["observedContentType"] == "application/json; charset=utf-8"
        # Of a type that the configuration does not name.
        assert (answer["mode"], answer["encoding"]) == ("OUTPUT", "BASE64")
        assert answer["observedContentType"] == "text/x-answer"
        assert base64.b64decode(answer["data"]).startswith(b"one application/json")
    assert len({line["eventMetadata"]["eventId"] for line in lines}) == 2


def test_only_a_share_is_captured(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([10.0, 29.9, 30.0, 99.0])
    monkeypatch.setattr("stand_in.executor.data_capture.random.uniform", lambda *_: next(drawn))
    serve(world, capturing(30, CaptureOptions=[{"CaptureMode": "Input"}]))
    for _ in range(4):
        invoke(world, b"x")
    # Whatever is not written yet is, when the endpoint goes.
    world.client("sagemaker").delete_endpoint(EndpointName="e")
    lines = eventually(lambda: captured(world))
    assert len(lines) == 2
    assert all(set(line["captureData"]) == {"endpointInput"} for line in lines)


def test_nothing_is_captured_when_it_is_off(world: World) -> None:
    serve(world, capturing(100, EnableCapture=False))
    invoke(world, b"x")
    world.executor.endpoints._runtime.flush()
    assert captured(world) == []


def test_metrics_of_each_invocation(world: World) -> None:
    create(world, configure(world, "config"))
    settled(world)
    invoke(world, b"x")
    refused(world, b"refuse")
    refused(world, b"break")
    invoke(world, b"slow")

    def told(metric: str, statistic: str) -> float:
        found = world.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker", MetricName=metric, Period=3600, Statistics=[statistic],
            Dimensions=[{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": "main"}],
            StartTime=datetime.now(UTC) - timedelta(hours=1), EndTime=datetime.now(UTC) + timedelta(hours=1),
        )["Datapoints"]  # fmt: skip
        return float(sum(one[statistic] for one in found) if statistic == "Sum" else max(o[statistic] for o in found))

    assert told("Invocations", "Sum") == 4
    assert told("Invocation4XXErrors", "Sum") == 1
    assert told("Invocation5XXErrors", "Sum") == 1
    # The fake server's pause, in microseconds.
    assert 1.5e6 <= told("ModelLatency", "Maximum") < 30e6
    assert 0 <= told("OverheadLatency", "Maximum") < 30e6


def network(world: World) -> dict[str, Any]:
    ec2 = world.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24")["Subnet"]["SubnetId"] for number in (1, 2)]
    group = ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc)["GroupId"]
    return {"Subnets": subnets, "SecurityGroupIds": [group]}


def interfaces(world: World, place: dict[str, Any]) -> list[str]:
    wanted = [{"Name": "group-id", "Values": place["SecurityGroupIds"]}]
    return [
        one["SubnetId"] for one in world.client("ec2").describe_network_interfaces(Filters=wanted)["NetworkInterfaces"]
    ]


@pytest.mark.parametrize("role", ["there", "gone"])
def test_interfaces_outlive_their_endpoint(world: World, monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    monkeypatch.setattr(endpoint_interfaces, "LINGER_SECONDS", 1.5)
    place = network(world)
    create(world, configure_variants(world, "c", {"main": {}}, modes={"main": "one"}, network=place))
    settled(world)
    assert sorted(interfaces(world, place)) == sorted(place["Subnets"])
    world.client("sagemaker").delete_endpoint(EndpointName="e")
    assert len(interfaces(world, place)) == 2
    if role == "gone":
        world.client("iam").delete_role(RoleName=ROLE.rpartition("/")[2])
        # Well after SageMaker would have removed them.
        eventually(lambda: not world.executor.state()["processes"])
        time.sleep(3)
        assert len(interfaces(world, place)) == 2
    else:
        eventually(lambda: not interfaces(world, place))


def test_an_update_leaves_the_new_fleets_interfaces(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_interfaces, "LINGER_SECONDS", 0.5)
    place = network(world)
    create(world, configure_variants(world, "old", {"main": {}}, modes={"main": "one"}, network=place))
    settled(world)
    configure_variants(world, "new", {"main": {}}, modes={"main": "two"}, network=place)
    world.client("sagemaker").update_endpoint(EndpointName="e", EndpointConfigName="new")
    eventually(lambda: len(interfaces(world, place)) == 4)
    settled(world)
    eventually(lambda: sorted(interfaces(world, place)) == sorted(place["Subnets"]))
