"""Jobs: named by their hash, started once, awaited, and untouched by anything that is none of their business."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.stacks.synthesis import Resource, Synthesized, listed

pytestmark = pytest.mark.stacks("Foundation", "Training", "Graviton")

JOB_ID = re.compile(r"[A-Z][A-Za-z]+?(?P<hash>[0-9a-f]{16})(?P<details>[0-9a-f]{8})[A-Z]")
JOB_TYPES = (
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::CloudFormation::WaitCondition",
    "AWS::CloudFormation::WaitConditionHandle",
    "AWS::CodeBuild::Project",
    "AWS::EC2::LaunchTemplate",
    "AWS::Events::Rule",
    "Custom::StartJob",
)


def job_resources(assembly: Synthesized) -> dict[str, Resource]:
    return {
        name: resource
        for template in assembly.templates.values()
        for name, resource in template["Resources"].items()
        if JOB_ID.match(name)
    }


def hashes(assembly: Synthesized) -> dict[str, str]:
    """{job: hash}, of the sentiment workload"""
    starts = [*assembly.resources("Custom::StartJob", "Training").values(),
              *assembly.resources("Custom::StartJob", "Graviton").values()]  # fmt: skip
    found = {}
    for properties in (item["Properties"] for item in starts):
        result = json.dumps(properties["Result"])
        job = re.search(r"(inputs|weights|packages)/|SentimentTraining|SentimentServing", result)
        assert job is not None, result
        found[job.group().strip("/")] = re.findall(r"[0-9a-f]{16}", result)[-1]
    return found


def test_every_resource_of_a_job_carries_its_hash(deployment: Synthesized) -> None:
    for kind in JOB_TYPES:
        found = deployment.resources(kind)
        assert found, kind
        for name in found:
            assert JOB_ID.match(name), name


def test_a_job_has_everything_that_it_needs(deployment: Synthesized) -> None:
    starts = deployment.resources("Custom::StartJob")
    assert len(starts) == 5
    for kind in ("AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle", "AWS::Events::Rule"):
        assert len(deployment.resources(kind)) == len(starts)


def test_wait_conditions_can_stay_for_ever(deployment: Synthesized) -> None:
    """They cannot be updated: count and timeout are the same in every version of every job."""
    for condition in deployment.resources("AWS::CloudFormation::WaitCondition").values():
        assert condition["Properties"]["Count"] == 1
        assert condition["Properties"]["Timeout"] == "43200"


def test_order_of_a_job(deployment: Synthesized) -> None:
    """Roles with their policies, rule and permission, then the start, then the wait."""
    for template in deployment.templates.values():
        resources: dict[str, Any] = template["Resources"]
        for name, resource in resources.items():
            if resource["Type"] != "Custom::StartJob":
                continue
            job = JOB_ID.match(name)
            assert job is not None
            prefix = job.group()[:-1]
            before = {resources[other]["Type"] for other in resource["DependsOn"] if other.startswith(prefix)}
            assert {"AWS::IAM::Role", "AWS::IAM::Policy", "AWS::Events::Rule", "AWS::Lambda::Permission"} <= before
            assert before & {"AWS::CodeBuild::Project", "AWS::AutoScaling::AutoScalingGroup"}
            shared = {resources[other]["Type"] for other in resource["DependsOn"] if not JOB_ID.match(other)}
            assert {"AWS::Lambda::Function", "AWS::IAM::Policy", "AWS::Logs::LogGroup"} <= shared
            waits = [
                item
                for other, item in resources.items()
                if item["Type"] == "AWS::CloudFormation::WaitCondition" and other.startswith(prefix)
            ]
            assert [item["DependsOn"] for item in waits] == [[name]]


def test_training_waits_for_mirror_and_image(deployment: Synthesized) -> None:
    starts = deployment.resources("Custom::StartJob", "Training")
    (training,) = [item for name, item in starts.items() if name.startswith("Train")]
    awaited = {name.split("Signal")[0] for name in training["DependsOn"] if "SignalDone" in name}
    assert {re.sub(r"[0-9a-f]{24}$", "", name) for name in awaited} == {"HubMirror", "Image"}


def test_model_waits_for_image_and_package(deployment: Synthesized) -> None:
    (model,) = deployment.resources("AWS::SageMaker::Model").values()
    awaited = {re.sub(r"[0-9a-f]{24}Signal.*", "", name) for name in model["DependsOn"] if "SignalDone" in name}
    assert awaited == {"Image", "Package"}


def test_parameters_move_when_the_result_is_there(deployment: Synthesized) -> None:
    (weights,) = deployment.resources("AWS::SSM::Parameter", "Training").values()
    assert [name for name in weights["DependsOn"] if name.startswith("Train") and "SignalDone" in name]
    endpoint = deployment.one("AWS::SSM::Parameter", "Graviton")
    assert "EndpointName" in json.dumps(endpoint["Value"])


def test_events_report_every_end(deployment: Synthesized) -> None:
    """No status is listed: faults and time-outs come under any name."""
    patterns = [item["Properties"]["EventPattern"] for item in deployment.resources("AWS::Events::Rule").values()]
    builds = [item["detail"] for item in patterns if item["source"] == ["aws.codebuild"]]
    assert len(builds) == 4
    assert all(item["build-status"] == [{"anything-but": "IN_PROGRESS"}] for item in builds)
    assert all(len(item["project-name"]) == 1 for item in builds)
    (group,) = [item for item in patterns if item["source"] == ["aws.autoscaling"]]
    assert group["detail-type"] == ["EC2 Instance Terminate Successful", "EC2 Instance Launch Unsuccessful"]


def test_builds_run_outside_the_vpc_on_the_image_architecture(deployment: Synthesized) -> None:
    projects = deployment.resources("AWS::CodeBuild::Project")
    environments = {name[:6]: item["Properties"]["Environment"] for name, item in projects.items()}
    assert all("VpcConfig" not in item["Properties"] for item in projects.values())
    assert all(item["Properties"]["TimeoutInMinutes"] <= 480 for item in projects.values())
    assert environments["Packag"]["Type"] == "ARM_CONTAINER"
    privileged = {name for name, item in environments.items() if item["PrivilegedMode"]}
    assert all(name.startswith("Image") for name in privileged)
    types = {
        stack: deployment.one("AWS::CodeBuild::Project", stack, containing="Image")["Environment"]["Type"]
        for stack in ("Training", "Graviton")
    }
    assert types == {"Training": "LINUX_CONTAINER", "Graviton": "ARM_CONTAINER"}


def test_builds_log_where_foundation_says(deployment: Synthesized) -> None:
    declared = {
        item["Properties"]["LogGroupName"]
        for item in deployment.resources("AWS::Logs::LogGroup").values()
        if "LogGroupName" in item["Properties"]
    }
    for project in deployment.resources("AWS::CodeBuild::Project").values():
        assert project["Properties"]["LogsConfig"]["CloudWatchLogs"]["GroupName"] in declared


@pytest.mark.parametrize(
    "changes",
    [
        {"deployment.owner": "another team"},
        {"logs.retention_days": 30},
        {"alarms.email": "ops@example.com"},
        {"budget.monthly_usd": 100, "budget.email": "ops@example.com"},
        {"sentiment.endpoint.max_instances": 3},
        {"sentiment.endpoint.instance_type": "ml.c7g.2xlarge"},
        {"sentiment.endpoint.workers": 2},
    ],
)
def test_what_is_no_business_of_a_job_changes_nothing_of_it(
    changes: dict[str, object], synthesize: Callable[..., Synthesized]
) -> None:
    assert job_resources(synthesize("dev", changes)) == job_resources(synthesize())


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"training.learning_rate": 2e-5}, {"weights", "packages"}),
        ({"training.epochs": 4}, {"weights", "packages"}),
        ({"training.base_model": "hf://FacebookAI/roberta-base@" + "0" * 40}, {"inputs", "weights", "packages"}),
        ({"training.instance_type": "g5.xlarge"}, {"weights", "packages"}),
        ({"training.instance_type": "p5.48xlarge"}, set()),
        ({"training.purchase": "spot"}, set()),
        ({"training.deadline_minutes": 600}, set()),
        ({"sentiment.endpoint.workers": 2}, set()),
    ],
)
def test_exactly_the_needed_jobs_run_again(
    changes: dict[str, object], changed: set[str], synthesize: Callable[..., Synthesized]
) -> None:
    """What a result depends on changes its hash; what merely produces it does not."""
    before, after = hashes(synthesize()), hashes(synthesize("dev", changes))
    assert {job for job in before if before[job] != after[job]} == changed


def test_other_details_make_new_resources_beside_the_old(synthesize: Callable[..., Synthesized]) -> None:
    """Never an edit of a finished job's resources: a rolled-back edit could start it again."""
    before, after = (job_resources(synthesize("dev", item)) for item in ({}, {"training.purchase": "spot"}))
    assert all(before[name] == after[name] for name in set(before) & set(after))
    assert {name for name in before if name.startswith("Train")}.isdisjoint(after)


def test_start_gets_what_it_needs(deployment: Synthesized) -> None:
    for start in deployment.resources("Custom::StartJob").values():
        properties = start["Properties"]
        assert {"Result", "Handle", "Kind", "ServiceToken"} <= set(properties)
        if properties["Kind"] == "build":
            assert {"ProjectName", "SourceLocation", "Environment", "BuildTimeoutMinutes"} <= set(properties)
            assert properties["Environment"]["TORCHLIFT_HANDLE"] == properties["Handle"]
        else:
            assert properties["GroupName"]
        assert int(properties["ServiceTimeout"]) <= 3600


def test_builds_may_read_their_source_as_codebuild_asks(deployment: Synthesized) -> None:
    for name, policy in deployment.resources("AWS::IAM::Policy").items():
        if not re.search(r"[0-9a-f]{24}RoleDefaultPolicy", name):
            continue
        text = json.dumps(policy)
        for action in ("s3:GetObject", "s3:GetObjectVersion", "s3:GetBucketAcl", "s3:GetBucketLocation"):
            assert f'"{action}"' in text, name


def test_policies_name_single_projects(deployment: Synthesized) -> None:
    for template in deployment.templates.values():
        for resource in template["Resources"].values():
            if resource["Type"] != "AWS::IAM::Policy":
                continue
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                if "codebuild:StartBuild" in listed(statement["Action"]):
                    assert all("Fn::GetAtt" in item for item in listed(statement["Resource"]))
