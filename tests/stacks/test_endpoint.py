"""The endpoint: what SageMaker refuses, and what it would do silently."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from settings import REPO_ROOT, load_settings
from stacks.serving_environment import container_environment
from tests.stacks.synthesis import Synthesized, statements

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")


def test_the_name_is_literal_and_carries_the_type(dev: Synthesized) -> None:
    assert dev.one("AWS::SageMaker::Endpoint")["EndpointName"] == "torchlift-dev-sentiment-c7g-4xlarge"


def test_another_type_is_another_endpoint_with_everything_that_belongs_to_it(
    synthesize: Callable[..., Synthesized],
) -> None:
    """SageMaker refuses to change the type of an autoscaled variant, or to rename a variant."""
    before = synthesize().templates["Graviton"]["Resources"]
    after = synthesize("dev", {"sentiment.endpoint.instance_type": "ml.c7g.2xlarge"}).templates["Graviton"]["Resources"]
    mine = ("AWS::SageMaker", "AWS::ApplicationAutoScaling", "AWS::CloudWatch")
    for name, resource in before.items():
        # The dashboard is the workload's, whichever endpoint serves.
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            assert name in after
        elif resource["Type"].startswith(mine) or (resource["Type"] == "AWS::Logs::LogGroup" and "Endpoint" in name):
            assert name not in after
    assert {"torchlift-dev-sentiment-c7g-2xlarge"} == {
        item["Properties"]["EndpointName"] for item in after.values() if item["Type"] == "AWS::SageMaker::Endpoint"
    }
    parameters = [
        {name: item for name, item in resources.items() if item["Type"] == "AWS::SSM::Parameter"}
        for resources in (before, after)
    ]
    assert list(parameters[0]) == list(parameters[1])


def test_model_and_configuration_have_generated_names(deployment: Synthesized) -> None:
    assert "ModelName" not in deployment.one("AWS::SageMaker::Model")
    assert "EndpointConfigName" not in deployment.one("AWS::SageMaker::EndpointConfig")


def test_updates_keep_the_scaled_fleet_and_nothing_else(deployment: Synthesized) -> None:
    """What is retained is never changed again by settings, and nothing says so."""
    endpoint = deployment.one("AWS::SageMaker::Endpoint")
    assert endpoint["RetainAllVariantProperties"] is True
    kinds = {item["VariantPropertyType"] for item in endpoint["ExcludeRetainedVariantProperties"]}
    assert kinds == {"DesiredWeight", "DataCaptureConfig"}
    assert deployment.resources("AWS::ApplicationAutoScaling::ScalableTarget")


def test_updates_are_rolled_back_by_alarms_that_exist_before(deployment: Synthesized) -> None:
    endpoint = deployment.one("AWS::SageMaker::Endpoint")
    alarms = deployment.resources("AWS::CloudWatch::Alarm", "Graviton")
    rollback = {item["AlarmName"] for item in endpoint["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]}
    # A full disk or an impolite client says nothing about the new version.
    found = [item["Properties"] for item in alarms.values() if item["Properties"]["AlarmName"] in rollback]
    assert {item["MetricName"] for item in found} == {"Invocation5XXErrors", "ModelLatency"}
    assert len(found) == len(rollback) <= 10
    wait = endpoint["DeploymentConfig"]["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]["WaitIntervalInSeconds"]
    assert all(item["Period"] * item["EvaluationPeriods"] < wait for item in found)
    (resource,) = deployment.resources("AWS::SageMaker::Endpoint").values()
    assert set(alarms) <= set(resource["DependsOn"])


def test_no_canary_that_one_instance_cannot_have(deployment: Synthesized) -> None:
    policy = deployment.one("AWS::SageMaker::Endpoint")["DeploymentConfig"]["BlueGreenUpdatePolicy"]
    routing = policy["TrafficRoutingConfiguration"]
    minimum = deployment.one("AWS::ApplicationAutoScaling::ScalableTarget")["MinCapacity"]
    assert routing["Type"] == ("ALL_AT_ONCE" if minimum == 1 else "CANARY")
    assert ("CanarySize" in routing) == (minimum > 1)
    assert 0 < routing["WaitIntervalInSeconds"] < policy["MaximumExecutionTimeoutInSeconds"] <= 28800


@pytest.mark.parametrize(
    "kind", ["AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy"]
)
def test_scaling_waits_for_the_endpoint(kind: str, deployment: Synthesized) -> None:
    (endpoint,) = deployment.resources("AWS::SageMaker::Endpoint")
    for target in deployment.resources(kind).values():
        assert target["DependsOn"] == [endpoint]


def test_model_is_isolated_in_private_subnets_and_waits_for_its_permissions(deployment: Synthesized) -> None:
    (resource,) = deployment.resources("AWS::SageMaker::Model").values()
    properties = resource["Properties"]
    assert properties["EnableNetworkIsolation"] is True
    assert len(properties["VpcConfig"]["Subnets"]) == 3
    assert len(properties["VpcConfig"]["SecurityGroupIds"]) == 1
    resources = deployment.templates["Graviton"]["Resources"]
    assert {"AWS::IAM::Policy", "AWS::IAM::Role", "AWS::Logs::LogGroup"} <= {
        resources[name]["Type"] for name in resource["DependsOn"]
    }


def test_the_log_group_has_sagemakers_name(deployment: Synthesized) -> None:
    endpoint = deployment.one("AWS::SageMaker::Endpoint")["EndpointName"]
    groups = [item["Properties"] for item in deployment.resources("AWS::Logs::LogGroup", "Graviton").values()]
    assert f"/aws/sagemaker/Endpoints/{endpoint}" in {item.get("LogGroupName") for item in groups}


def test_volume_key_where_the_type_allows(deployment: Synthesized, synthesize: Callable[..., Synthesized]) -> None:
    assert "KmsKeyId" in deployment.one("AWS::SageMaker::EndpointConfig")
    changes = {"sentiment.endpoint.instance_type": "ml.c6gd.4xlarge", "sentiment.endpoint.kms": False}
    assert "KmsKeyId" not in synthesize("dev", changes).one("AWS::SageMaker::EndpointConfig")


def test_volumes_are_encrypted_by_a_grant(deployment: Synthesized, synthesize: Callable[..., Synthesized]) -> None:
    actions = [item["Action"] for _, item in statements(deployment.templates["Graviton"])]
    assert actions.count("kms:CreateGrant") == 1
    changes = {"sentiment.endpoint.instance_type": "ml.c6gd.4xlarge", "sentiment.endpoint.kms": False}
    without = [item["Action"] for _, item in statements(synthesize("dev", changes).templates["Graviton"])]
    assert "kms:CreateGrant" not in without


def test_sagemaker_reads_the_rollback_alarms(deployment: Synthesized) -> None:
    rollback = deployment.one("AWS::SageMaker::Endpoint")["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    names = {item["AlarmName"] for item in rollback}
    (statement,) = [
        item
        for _, item in statements(deployment.templates["Graviton"])
        if item["Action"] == "cloudwatch:DescribeAlarms"
    ]
    assert all(f":alarm:{name}" in json.dumps(statement["Resource"]) for name in names)


@pytest.mark.parametrize(("workers", "vcpus", "threads"), [(4, 16, "4"), (3, 16, "5"), (16, 16, "1"), (1, 4, "4")])
def test_workers_times_threads_never_exceed_the_vcpus(workers: int, vcpus: int, threads: str) -> None:
    sentiment = load_settings("dev", root=REPO_ROOT).sentiment
    assert sentiment is not None
    settings = sentiment.endpoint.model_copy(update={"workers": workers})
    environment = container_environment(settings, vcpus=vcpus)
    assert environment["OMP_NUM_THREADS"] == threads
    assert environment["SAGEMAKER_MODEL_SERVER_WORKERS"] == str(workers)
    assert int(threads) * workers <= vcpus
    # With any SAGEMAKER_TS_ variable the toolkit counts the workers by these two.
    assert {environment[f"SAGEMAKER_TS_{end}_WORKERS"] for end in ("MIN", "MAX")} == {str(workers)}


def test_how_requests_are_judged_reaches_the_container() -> None:
    sentiment = load_settings("dev", root=REPO_ROOT).sentiment
    assert sentiment is not None
    wanted = {"batch_size": 3, "max_batch_delay_ms": 7, "response_timeout_seconds": 30, "bf16": False}
    environment = container_environment(sentiment.endpoint.model_copy(update=wanted), vcpus=4)
    assert environment["SAGEMAKER_TS_BATCH_SIZE"] == "3"
    assert environment["SAGEMAKER_TS_MAX_BATCH_DELAY"] == "7"
    assert environment["SAGEMAKER_TS_RESPONSE_TIMEOUT"] == "30"
    assert environment["TORCHLIFT_BF16"] == "false"
    assert environment["TOKENIZERS_PARALLELISM"] == "false"
