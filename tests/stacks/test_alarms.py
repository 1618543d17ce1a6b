"""Alarms and scaling: each alarm reaches somebody, says what to do, and watches a metric that exists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from settings import REPO_ROOT, names
from settings.hardware import ML_TYPES
from tests.stacks.synthesis import Synthesized
from torchlift.endpoint_alarms import cpu_limit, memory_limit, server_errors
from torchlift.endpoint_metrics import WatchedVariant

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")

VARIANT_METRICS = {"EndpointName", "VariantName"}
INVOKED = "AWS/SageMaker"
USED = "/aws/sagemaker/Endpoints"
PUBLISHED: dict[tuple[str, str], tuple[set[str], set[str]]] = {
    (INVOKED, "Invocations"): (VARIANT_METRICS, {"Sum"}),
    (INVOKED, "InvocationsPerInstance"): (VARIANT_METRICS, {"Sum"}),
    (INVOKED, "Invocation4XXErrors"): (VARIANT_METRICS, {"Average", "Sum"}),
    (INVOKED, "Invocation5XXErrors"): (VARIANT_METRICS, {"Average", "Sum"}),
    (INVOKED, "InvocationModelErrors"): (VARIANT_METRICS, {"Average", "Sum"}),
    (INVOKED, "ModelLatency"): (VARIANT_METRICS, {"p50", "p90", "p99"}),
    (INVOKED, "OverheadLatency"): (VARIANT_METRICS, {"p50", "p90", "p99"}),
    (USED, "CPUUtilization"): (VARIANT_METRICS, {"Average", "Maximum", "SampleCount"}),
    (USED, "MemoryUtilization"): (VARIANT_METRICS, {"Average", "Maximum"}),
    (USED, "DiskUtilization"): (VARIANT_METRICS, {"Average", "Maximum"}),
    ("AWS/EC2", "CPUUtilization"): ({"InstanceId"}, {"Average", "Maximum"}),
}
"""{(namespace, metric): (its dimensions, statistics that mean something)}, from SageMaker's "metrics in Amazon
CloudWatch" and EC2's "CloudWatch metrics that are available for your instances". Percentiles need values of single
requests, which the latencies have (CloudWatch, "Percentiles")."""

Properties = dict[str, Any]


def alarms(assembly: Synthesized) -> dict[str, Properties]:
    """{name or logical id: properties}"""
    found = assembly.resources("AWS::CloudWatch::Alarm")
    return {item["Properties"].get("AlarmName", name): item["Properties"] for name, item in found.items()}


def watched(alarm: Properties) -> Iterator[tuple[str, str, set[str], str]]:
    """(namespace, metric, dimensions, statistic) of everything that an alarm looks at."""
    if "MetricName" in alarm:
        statistic = alarm.get("Statistic") or alarm["ExtendedStatistic"]
        dimensions = {item["Name"] for item in alarm.get("Dimensions", [])}
        yield alarm["Namespace"], alarm["MetricName"], dimensions, statistic
    for query in alarm.get("Metrics", []):
        if "MetricStat" in query:
            metric = query["MetricStat"]["Metric"]
            dimensions = {item["Name"] for item in metric["Dimensions"]}
            yield metric["Namespace"], metric["MetricName"], dimensions, query["MetricStat"]["Stat"]


def counted(assembly: Synthesized) -> dict[tuple[str, str], tuple[set[str], set[str]]]:
    """What the metric filters publish, as in PUBLISHED."""
    filters = assembly.resources("AWS::Logs::MetricFilter").values()
    made = [one for item in filters for one in item["Properties"]["MetricTransformations"]]
    return {(one["MetricNamespace"], one["MetricName"]): (set(), {"Sum"}) for one in made}


@pytest.fixture
def with_box(synthesize: Callable[..., Synthesized]) -> Synthesized:
    return synthesize("dev", {"training.mode": "interactive"})


def test_every_alarm_watches_something_that_is_published(deployment: Synthesized, with_box: Synthesized) -> None:
    published = PUBLISHED | counted(deployment) | counted(with_box)
    for name, alarm in (alarms(deployment) | alarms(with_box)).items():
        seen = list(watched(alarm))
        assert seen, name
        for namespace, metric, dimensions, statistic in seen:
            known, statistics = published[namespace, metric]
            assert (dimensions, statistic in statistics) == (known, True), name


def test_every_alarm_reaches_somebody_and_says_what_silence_means(
    deployment: Synthesized, with_box: Synthesized
) -> None:
    for name, alarm in (alarms(deployment) | alarms(with_box)).items():
        topic = [action for action in alarm["AlarmActions"] if "Alarms" in str(action)]
        assert topic, name
        assert "ActionsEnabled" not in alarm
        assert alarm["TreatMissingData"] == "notBreaching", name
        assert alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]


def test_every_alarm_points_into_the_runbook_and_back(
    with_box: Synthesized, synthesize_whole: Callable[..., Synthesized]
) -> None:
    text = (REPO_ROOT / "docs" / "runbooks.md").read_text()
    alarmed, _, rest = text.partition("\n# Without an alarm")
    assert rest
    sections = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", alarmed, re.MULTILINE)}
    pointed = set()
    one_model = synthesize_whole("dev", {"text_encoding.mode": "single-model", "text_encoding.models": 1})
    whole = alarms(with_box) | alarms(synthesize_whole()) | alarms(one_model)
    for name, alarm in whole.items():
        found = re.search(r"See docs/runbooks\.md#([a-z-]+)$", alarm["AlarmDescription"])
        assert found, name
        pointed.add(found.group(1))
    # The budget itself tells of this one.
    assert sections == pointed | {"budget"}


def test_names_are_literal_and_name_the_endpoint(deployment: Synthesized) -> None:
    """The endpoint names those that roll it back: a reference either way would be a cycle."""
    endpoint = deployment.one("AWS::SageMaker::Endpoint")["EndpointName"]
    found = deployment.resources("AWS::CloudWatch::Alarm", "Graviton").values()
    kinds = {"server-errors", "latency", "client-errors", "overhead", "capacity", "cpu", "memory", "disk"}
    assert {item["Properties"]["AlarmName"] for item in found} == {f"{endpoint}-{kind}" for kind in kinds}


def test_thresholds_follow_the_settings(synthesize: Callable[..., Synthesized]) -> None:
    changes = {
        "sentiment.endpoint.latency_p99_ms_alarm": 250,
        "sentiment.endpoint.client_error_percent_alarm": 20,
        "sentiment.endpoint.invocations_per_instance": 4000.0,
        "sentiment.endpoint.cpu_utilization_target_percent": 60,
        "sentiment.endpoint.max_instances": 3,
    }
    found = {
        name.removeprefix("torchlift-dev-sentiment-c7g-4xlarge-"): item
        for name, item in alarms(synthesize("dev", changes)).items()
    }
    thresholds = {name: item["Threshold"] for name, item in found.items()}
    assert thresholds["latency"] == thresholds["overhead"] == 250_000
    assert thresholds["client-errors"] == 20
    assert thresholds["server-errors"] == 20
    assert thresholds["cpu"] == 80 * 16
    (expression,) = [item["Expression"] for item in found["capacity"]["Metrics"] if "Expression" in item]
    assert expression == "IF(instances >= 3 AND (load >= 4000 OR cpu >= 960), 1, 0)"


def test_one_bad_call_at_night_is_no_incident(deployment: Synthesized) -> None:
    (alarm,) = [item for name, item in alarms(deployment).items() if name.endswith("client-errors")]
    (expression,) = [item["Expression"] for item in alarm["Metrics"] if "Expression" in item]
    # The ids carry the variant's name, so that several variants fit on one graph.
    assert expression.replace("_AllTraffic", "") == "IF(invocations >= 50, 100 * errors / invocations, 0)"
    assert {item["MetricStat"]["Period"] for item in alarm["Metrics"] if "MetricStat" in item} == {300}


def test_a_failed_job_of_each_kind_reaches_somebody(deployment: Synthesized) -> None:
    """`signal_job` tells of builds and lost instances; a line in its log of an instance that ended itself."""
    topic = deployment.one("AWS::Lambda::Function", "Training", containing="SignalJob")["Environment"]["Variables"]
    assert "Alarms" in str(topic["TORCHLIFT_TOPIC_ARN"])
    filters = deployment.resources("AWS::Logs::MetricFilter", "Foundation")
    groups = deployment.resources("AWS::Logs::LogGroup", "Foundation")
    found = {}
    for one in (item["Properties"] for item in filters.values()):
        (made,) = one["MetricTransformations"]
        found[groups[one["LogGroupName"]["Ref"]]["Properties"]["LogGroupName"]] = made
        assert one["FilterPattern"] == '"torchlift: FAILURE:"'
    launched = [
        text
        for template in deployment.resources("AWS::EC2::LaunchTemplate").values()
        if "TORCHLIFT_LOG_GROUP" in (text := json.dumps(template["Properties"]["LaunchTemplateData"]["UserData"]))
    ]
    assert len(found) == len(names.INSTANCE_JOBS)
    assert all(any(group in text for group in found) for text in launched)
    (alarm,) = [item for name, item in alarms(deployment).items() if name.endswith("sentiment-train-failed")]
    (metric,) = [one for group, one in found.items() if group.endswith("/sentiment-train")]
    assert (alarm["Namespace"], alarm["MetricName"]) == (metric["MetricNamespace"], metric["MetricName"])
    assert "OKActions" not in alarm


def variant(**changes: Any) -> WatchedVariant:
    values: dict[str, Any] = {
        "endpoint_name": "e", "name": "v", "prefix": "e", "vcpus": 4, "memory_gib": 8, "minimum": 1, "maximum": 2,
        "invocations_per_instance": 1000.0, "cpu_target_percent": 70, "latency_p99_ms": 1000,
        "client_error_percent": 10,
    }  # fmt: skip
    return WatchedVariant(**(values | changes))


@pytest.mark.parametrize("name", [name for name, item in ML_TYPES.items() if item.arch == "arm64"])
def test_targets_and_limits_of_every_hosting_type(name: str) -> None:
    """The CPU metric is a sum over the vCPUs: a plain 70 would keep a large machine nearly idle."""
    hardware = ML_TYPES[name]
    made = variant(vcpus=hardware.vcpus, memory_gib=hardware.memory_gib)
    assert made.cpu_target == 70 * hardware.vcpus
    assert made.cpu_target < cpu_limit(made) < 100 * hardware.vcpus
    assert 80 <= memory_limit(made) <= 90


def test_server_errors_grow_with_the_fleet_and_one_is_never_enough() -> None:
    assert server_errors(variant()) == 5
    assert server_errors(variant(minimum=4)) == 20
    assert server_errors(variant(invocations_per_instance=10.0)) == 2


def test_scaling(deployment: Synthesized) -> None:
    target = deployment.one("AWS::ApplicationAutoScaling::ScalableTarget")
    config = deployment.one("AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]
    endpoint = deployment.one("AWS::SageMaker::Endpoint")["EndpointName"]
    assert target["ResourceId"] == f"endpoint/{endpoint}/variant/{config['VariantName']}"
    assert 1 <= target["MinCapacity"] <= config["InitialInstanceCount"] <= target["MaxCapacity"]
    # The service makes a role of its own; one of ours would never be used.
    assert "RoleARN" not in target
    policies = deployment.resources("AWS::ApplicationAutoScaling::ScalingPolicy").values()
    tracking = [item["Properties"]["TargetTrackingScalingPolicyConfiguration"] for item in policies]
    for item in tracking:
        assert (item["ScaleInCooldown"], item["ScaleOutCooldown"]) == (600, 120)
        # Scaling in stays on in both: it happens when both agree.
        assert "DisableScaleIn" not in item
    (requests,) = [item for item in tracking if "PredefinedMetricSpecification" in item]
    assert requests["PredefinedMetricSpecification"] == {
        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
    }
    (cpu,) = [item for item in tracking if "CustomizedMetricSpecification" in item]
    metric = cpu["CustomizedMetricSpecification"]
    assert (metric["Namespace"], metric["MetricName"], metric["Statistic"]) == (USED, "CPUUtilization", "Average")
    dimensions = {item["Name"]: item["Value"] for item in metric["Dimensions"]}
    assert dimensions == {"EndpointName": endpoint, "VariantName": "AllTraffic"}
    assert cpu["TargetValue"] == 70 * ML_TYPES[config["InstanceType"]].vcpus


def test_the_cpu_target_follows_type_and_setting(synthesize: Callable[..., Synthesized]) -> None:
    changes = {
        "sentiment.endpoint.instance_type": "ml.c7g.xlarge",
        "sentiment.endpoint.cpu_utilization_target_percent": 50,
    }
    policy = synthesize("dev", changes).one("AWS::ApplicationAutoScaling::ScalingPolicy", containing="Cpu")
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 200


def box_alarm(assembly: Synthesized) -> Properties:
    return assembly.one("AWS::CloudWatch::Alarm", "Training")


def test_an_idle_box_is_stopped_and_somebody_told(with_box: Synthesized) -> None:
    alarm = box_alarm(with_box)
    (instance,) = with_box.resources("AWS::EC2::Instance")
    assert alarm["Dimensions"] == [{"Name": "InstanceId", "Value": {"Ref": instance}}]
    assert alarm["Threshold"] == 0.52  # half of one of 96 cores, per cent
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    assert alarm["Period"] * alarm["EvaluationPeriods"] == 120 * 60
    assert alarm["EvaluationPeriods"] == alarm["DatapointsToAlarm"]
    _, stop = alarm["AlarmActions"]
    assert "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in stop["Fn::Join"][1]) == (
        "arn:<AWS::Partition>:automate:<AWS::Region>:ec2:stop"
    )


def test_a_box_may_be_told_to_wait(synthesize: Callable[..., Synthesized]) -> None:
    changes = {"training.mode": "interactive", "training.idle_stop_minutes": 0}
    assert len(box_alarm(synthesize("dev", changes))["AlarmActions"]) == 1


def test_the_longest_idle_time_is_what_an_alarm_looks_back(synthesize: Callable[..., Synthesized]) -> None:
    changes = {"training.mode": "interactive", "training.idle_stop_minutes": 1440}
    alarm = box_alarm(synthesize("dev", changes))
    assert alarm["Period"] * alarm["EvaluationPeriods"] <= 86400
