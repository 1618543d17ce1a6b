"""Least privilege, written out; who may use the key; who may write which logs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stacks.synthesis import Synthesized, listed, statements

ANY_RESOURCE = {
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
    "cloudwatch:PutMetricData",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "ec2messages:AcknowledgeMessage",
    "ec2messages:DeleteMessage",
    "ec2messages:FailMessage",
    "ec2messages:GetEndpoint",
    "ec2messages:GetMessages",
    "ec2messages:SendReply",
    "ecr:GetAuthorizationToken",
    "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
}
"""Actions that AWS lets nobody narrow to a resource (service authorization reference)."""


def all_statements(assembly: Synthesized) -> list[tuple[str, dict[str, Any]]]:
    return [item for template in assembly.templates.values() for item in statements(template)]


def test_no_managed_policies(deployment: Synthesized) -> None:
    text = json.dumps(deployment.templates)
    assert "FullAccess" not in text
    for role in deployment.resources("AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role["Properties"]


def test_actions_are_written_out(deployment: Synthesized) -> None:
    for name, statement in all_statements(deployment):
        assert statement["Effect"] == "Allow"
        assert "NotAction" not in statement
        for action in listed(statement["Action"]):
            assert "*" not in action, f"{name}: {action}"


def test_any_resource_only_where_nothing_narrower_exists(deployment: Synthesized) -> None:
    for name, statement in all_statements(deployment):
        if "*" in listed(statement["Resource"]):
            assert set(listed(statement["Action"])) <= ANY_RESOURCE, name


def test_prefixes_not_buckets(deployment: Synthesized) -> None:
    """Only the function that empties an ephemeral bucket may touch all of its objects."""
    for name, statement in all_statements(deployment):
        actions = {action for action in listed(statement["Action"]) if action.startswith("s3:")}
        if not actions or "EmptyBucket" in name:
            continue
        if actions == {"s3:GetBucketAcl", "s3:GetBucketLocation"}:
            continue
        if actions == {"s3:ListBucket"}:
            assert statement["Condition"]["StringLike"]["s3:prefix"]
            continue
        for resource in listed(statement["Resource"]):
            path = resource["Fn::Join"][1][-1]
            assert path not in ("/*", ""), name
            assert path.count("/") >= 2 or path.endswith(".zip"), f"{name}: {path}"


def test_the_key_is_used_through_s3_and_for_volumes_only(deployment: Synthesized) -> None:
    found = 0
    for name, statement in all_statements(deployment):
        if any(action.startswith("kms:") for action in listed(statement["Action"])):
            found += 1
            if statement["Action"] == "kms:CreateGrant":
                # For an endpoint's volumes; the grant itself can only be for a service.
                assert statement["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
                assert "Execution" in name
                continue
            assert "kms:ViaService" in statement["Condition"]["StringEquals"], name
    assert found


def test_services_assume_roles_for_this_account_only(deployment: Synthesized) -> None:
    for name, role in deployment.resources("AWS::IAM::Role").items():
        (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        service = statement["Principal"]["Service"]
        # These two pass no source account when they assume a role.
        if service in ("lambda.amazonaws.com", "ec2.amazonaws.com"):
            continue
        assert "aws:SourceAccount" in statement["Condition"]["StringEquals"], name


def test_key_policy_admits_the_services_that_act_without_a_role(deployment: Synthesized) -> None:
    policy = deployment.one("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    admitted = {
        service: item.get("Condition") for item in policy for service in listed(item["Principal"].get("Service", []))
    }
    assert set(admitted) == {
        "budgets.amazonaws.com",
        "cloudwatch.amazonaws.com",
        "events.amazonaws.com",
        "logs.us-west-2.amazonaws.com",
    }
    assert "aws:SourceAccount" in json.dumps(admitted["cloudwatch.amazonaws.com"])
    assert "aws:SourceAccount" in json.dumps(admitted["budgets.amazonaws.com"])
    # EventBridge passes none.
    assert admitted["events.amazonaws.com"] is None
    assert "kms:EncryptionContext:aws:logs:arn" in json.dumps(admitted["logs.us-west-2.amazonaws.com"])
    assert deployment.one("AWS::KMS::Key")["EnableKeyRotation"] is True


def test_topic_admits_alarms_and_budgets(deployment: Synthesized) -> None:
    policy = deployment.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    allowed = [item for item in policy if item["Effect"] == "Allow"]
    publishers = {service for item in allowed for service in listed(item["Principal"]["Service"])}
    assert all("aws:SourceAccount" in item["Condition"]["StringEquals"] for item in allowed)
    assert publishers == {"cloudwatch.amazonaws.com", "budgets.amazonaws.com"}
    assert "KmsMasterKeyId" in deployment.one("AWS::SNS::Topic")
    denied = [item for item in policy if item["Effect"] == "Deny"]
    assert denied[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_every_function_logs_to_a_declared_group_and_may_not_make_one(deployment: Synthesized) -> None:
    for template in deployment.templates.values():
        resources = template["Resources"]
        for name, function in resources.items():
            if function["Type"] != "AWS::Lambda::Function":
                continue
            group = function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"]
            assert resources[group]["Type"] == "AWS::Logs::LogGroup"
            assert group in function["DependsOn"], name
            kinds = {resources[other]["Type"] for other in function["DependsOn"]}
            assert {"AWS::IAM::Role", "AWS::IAM::Policy"} <= kinds
    assert "logs:CreateLogGroup" not in json.dumps(deployment.templates)


def test_log_groups_are_encrypted_kept_as_long_as_the_settings_say(deployment: Synthesized) -> None:
    days = {item["Properties"]["RetentionInDays"] for item in deployment.resources("AWS::Logs::LogGroup").values()}
    assert len(days) == 1
    for name, group in deployment.resources("AWS::Logs::LogGroup").items():
        assert "KmsKeyId" in group["Properties"], name


def test_groups_with_fixed_names_go_with_their_stack(deployment: Synthesized) -> None:
    """One that stayed would be in the way of the next deployment of the same name."""
    for group in deployment.resources("AWS::Logs::LogGroup").values():
        if "LogGroupName" in group["Properties"]:
            assert group["DeletionPolicy"] == "Delete"


def test_functions_run_the_newest_python_of_the_cdk(deployment: Synthesized) -> None:
    runtimes = {item["Properties"]["Runtime"] for item in deployment.resources("AWS::Lambda::Function").values()}
    assert runtimes == {"python3.14"}


@pytest.mark.parametrize(("name", "policy"), [("dev", "Delete"), ("prod", "RetainExceptOnCreate")])
def test_data_goes_or_stays(name: str, policy: str, deployments: dict[str, Synthesized]) -> None:
    for kind in ("AWS::S3::Bucket", "AWS::ECR::Repository", "AWS::KMS::Key"):
        for resource in deployments[name].resources(kind).values():
            assert resource["DeletionPolicy"] == policy
            assert resource["UpdateReplacePolicy"] == policy.removesuffix("ExceptOnCreate")
    assert bool(deployments[name].resources("Custom::EmptyBucket")) == (policy == "Delete")


def test_the_bucket_is_private_versioned_encrypted_and_takes_tls_only(deployment: Synthesized) -> None:
    bucket = deployment.one("AWS::S3::Bucket")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert "aws:SecureTransport" in json.dumps(deployment.one("AWS::S3::BucketPolicy"))


def test_results_never_expire(deployment: Synthesized) -> None:
    """A rollback goes back to them. Only what is temporary, or an old version, is removed."""
    rules = deployment.one("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    assert {item.get("Prefix") for item in rules if "ExpirationInDays" in item} == {"tmp/", "checkpoints/"}
    for repository in deployment.resources("AWS::ECR::Repository").values():
        assert repository["Properties"]["ImageTagMutability"] == "IMMUTABLE"
        policy = json.loads(repository["Properties"]["LifecyclePolicy"]["LifecyclePolicyText"])
        assert {rule["selection"]["tagStatus"] for rule in policy["rules"]} == {"untagged"}
