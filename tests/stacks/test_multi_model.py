"""MultiModel: many models behind one GPU endpoint, and the one that is always loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from settings.triton import AMI_DRIVERS, triton_release
from tests.stacks.synthesis import Synthesized, listed, statements
from torchlift.endpoint_variants import Fleet, ManyModels, Variant, check_variants

pytestmark = pytest.mark.stacks("MultiModel")
SINGLE: dict[str, object] = {"text_encoding.mode": "single-model", "text_encoding.models": 1}
HASH = r"[0-9a-f]{16}"


def container(assembly: Synthesized) -> dict[str, Any]:
    found: dict[str, Any] = assembly.one("AWS::SageMaker::Model")["PrimaryContainer"]
    return found


def hash_in(text: object, before: str) -> str:
    found = re.search(rf"{before}/text-encoding/({HASH})/", json.dumps(text))
    assert found is not None
    return found[1]


def test_many_models_are_a_prefix_of_their_own_build(deployment: Synthesized) -> None:
    many = container(deployment)
    assert many["Mode"] == "MultiModel"
    assert many["MultiModelConfig"] == {"ModelCacheSetting": "Enabled"}
    assert json.dumps(many["ModelDataUrl"]).endswith('/"]]}'), "a prefix ends in a slash"
    assert "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME" not in many["Environment"]
    assert many["Environment"]["SAGEMAKER_TRITON_LOG_VERBOSE"] == "false", "the container's default is true"
    (verified,) = deployment.resources("Custom::VerifyEndpoint").values()
    (asked,) = verified["Properties"]["Variants"]
    assert asked["TargetModel"] == "encoder-0.tar.gz"
    assert hash_in(asked["Probe"], "engines") == hash_in(many["ModelDataUrl"], "models")


def test_one_model_is_an_archive_and_asked_without_a_name(synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("dev", {**SINGLE, "text_encoding.endpoint.high_resolution_concurrency": 8.0})
    one = container(made)
    assert "Mode" not in one and "MultiModelConfig" not in one
    assert "/encoder-0.tar.gz" in json.dumps(one["ModelDataUrl"])
    assert one["Environment"]["SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"] == "encoder-0"
    (verified,) = made.resources("Custom::VerifyEndpoint").values()
    assert "TargetModel" not in verified["Properties"]["Variants"][0]
    names = [item["Properties"]["Name"] for item in made.resources("AWS::SSM::Parameter").values()]
    assert names == ["/torchlift/dev/text-encoding/endpoint"], "nothing may be added to one model"
    policies = [item["Properties"] for item in made.resources("AWS::ApplicationAutoScaling::ScalingPolicy").values()]
    (concurrency,) = [item for item in policies if item["PolicyName"].endswith("-concurrency")]
    metric = concurrency["TargetTrackingScalingPolicyConfiguration"]["PredefinedMetricSpecification"]
    assert metric["PredefinedMetricType"] == "SageMakerVariantConcurrentRequestsPerModelHighResolution"


def test_caching_can_be_off_and_then_nobody_alarms_about_it(synthesize: Callable[..., Synthesized]) -> None:
    made = synthesize("dev", {"text_encoding.endpoint.model_caching": False})
    assert container(made)["MultiModelConfig"] == {"ModelCacheSetting": "Disabled"}
    assert not [name for name in made.resources("AWS::CloudWatch::Alarm") if "ModelCache" in name]


def test_what_many_models_do_by_design_rings_no_alarm(
    deployment: Synthesized, synthesize: Callable[..., Synthesized]
) -> None:
    """They fill the disk, and the wait for one is part of SageMaker's share of a request (OverheadLatency)."""

    def thresholds(made: Synthesized) -> dict[str, float]:
        found = [item["Properties"] for item in made.resources("AWS::CloudWatch::Alarm").values()]
        return {
            str(item["AlarmName"]).rpartition("-")[2]: float(item["Threshold"]) for item in found if "AlarmName" in item
        }

    many, one = thresholds(deployment), thresholds(synthesize("dev", SINGLE))
    assert many["overhead"] == many["latency"] + many["loading"]
    assert one["overhead"] == one["latency"]
    assert "disk" in one and "disk" not in many


def test_the_driver_fits_the_container_and_disks_have_no_key(deployment: Synthesized) -> None:
    config = deployment.one("AWS::SageMaker::EndpointConfig")
    (variant,) = config["ProductionVariants"]
    release = triton_release("25.09")
    assert AMI_DRIVERS[variant["InferenceAmiVersion"]] >= release.minimum_driver
    assert "KmsKeyId" not in config, "SageMaker refuses one for local disks"
    assert "DataCaptureConfig" not in config, "and captures nothing of many models"


@pytest.mark.parametrize(("type_", "gpus", "vcpus"), [("ml.g5.xlarge", 1, 4), ("ml.g5.12xlarge", 4, 48)])
def test_scaling_follows_sums_over_gpus_and_vcpus(
    type_: str, gpus: int, vcpus: int, synthesize: Callable[..., Synthesized]
) -> None:
    made = synthesize("dev", {"text_encoding.endpoint.instance_type": type_})
    found = {}
    for item in made.resources("AWS::ApplicationAutoScaling::ScalingPolicy").values():
        tracking = item["Properties"]["TargetTrackingScalingPolicyConfiguration"]
        metric = tracking.get("CustomizedMetricSpecification", {}).get("MetricName", "Invocations")
        found[metric] = tracking["TargetValue"]
        assert {tracking["ScaleInCooldown"], tracking["ScaleOutCooldown"]} == {600, 120}
    assert found == {"Invocations": 6000, "GPUUtilization": 60 * gpus, "CPUUtilization": 70 * vcpus}


def test_the_endpoint_reads_archives_and_nothing_else(deployment: Synthesized) -> None:
    reads = [
        statement
        for name, statement in statements(deployment.templates["MultiModel"])
        if "LastingExecution" in name and any(action.startswith("s3:") for action in listed(statement["Action"]))
    ]
    assert {tuple(listed(item["Action"])) for item in reads} == {("s3:GetObject",), ("s3:ListBucket",)}
    for item in reads:
        if "s3:ListBucket" in listed(item["Action"]):
            assert item["Condition"] == {"StringLike": {"s3:prefix": "models/text-encoding/*"}}
        else:
            assert json.dumps(item["Resource"]).endswith('/models/text-encoding/*"]]}')


def engine_variables(assembly: Synthesized) -> str:
    template = assembly.one("AWS::EC2::LaunchTemplate")
    return json.dumps(template["LaunchTemplateData"]["UserData"])


def test_the_engine_is_built_where_it_runs_and_by_what_serves_it(deployment: Synthesized) -> None:
    text = engine_variables(deployment)
    assert "${TORCHLIFT_DEVICE:-gpu}" in text, "on AWS nothing sets it"
    assert "TORCHLIFT_DEVICE=" not in text
    assert "--minimum-driver 580" in text
    assert hash_in(text, "engines") == hash_in(text, "models"), "archives go to the endpoint's prefix as well"
    starts = deployment.resources("Custom::StartJob")
    (builder,) = [item for name, item in starts.items() if name.startswith("Builder")]
    awaited = [name for name in builder["DependsOn"] if "SignalDone" in name]
    assert len(awaited) == 1 and awaited[0].startswith("Triton")
    assert "Triton" in json.dumps(builder["Properties"]["Environment"]["BASE_IMAGE"])


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"text_encoding.precision": "fp32"}, True),
        ({"text_encoding.triton_release": "25.04"}, True),
        ({"text_encoding.models": ["news", "chat"]}, True),
        ({"text_encoding.build_instance_type": "g5.2xlarge"}, True),
        ({"text_encoding.endpoint.max_instances": 9}, False),
        ({"text_encoding.endpoint.log_verbose": True}, False),
        ({"text_encoding.deadline_minutes": 60}, False),
    ],
)
def test_what_builds_a_new_engine(
    changes: dict[str, object], again: bool, synthesize: Callable[..., Synthesized]
) -> None:
    before, after = (hash_in(container(synthesize("dev", one))["ModelDataUrl"], "models") for one in ({}, changes))
    assert (before != after) == again


def fleet(**changes: Any) -> Fleet:
    values: dict[str, Any] = {
        "instance_type": "ml.g5.xlarge", "minimum": 1, "initial": 1, "maximum": 1, "invocations_per_instance": 1,
        "cpu_target_percent": 70, "scale_in_cooldown_seconds": 0, "scale_out_cooldown_seconds": 0,
        "health_check_timeout_seconds": 60, "model_download_timeout_seconds": 60, "gpu_target_percent": 60,
        "ami_version": "al2023-ami-sagemaker-inference-gpu-4-1",
    }  # fmt: skip
    return Fleet(**values | changes)


def test_what_sagemaker_would_refuse() -> None:
    many = ManyModels(caching=True, loading_wait_ms=1, cache_hit_percent=1)

    def variant(**changes: Any) -> Variant:
        values: dict[str, Any] = {"name": "A", "path": "models/", "environment": {}, "fleet": fleet(), "many": many}
        return Variant(**values | changes)

    check_variants([variant()], None)
    with pytest.raises(ValueError, match="has GPUs"):
        check_variants([variant(fleet=fleet(ami_version=None))], None)
    with pytest.raises(ValueError, match="stand alone"):
        check_variants([variant(), variant(name="B")], None)
    with pytest.raises(ValueError, match="no concurrent requests"):
        check_variants([variant(fleet=fleet(concurrent_requests=4))], None)
    with pytest.raises(ValueError, match="a prefix ending in a slash"):
        variant(path="models/a.tar.gz")
