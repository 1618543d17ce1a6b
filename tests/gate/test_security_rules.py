"""cdk-nag: no finding without a reason, in any deployment; and a synthesis without a warning."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker

from tests.stacks.synthesis import CONTEXT, DEPLOYMENTS, edited, in_subprocess
from torchlift import permissions
from torchlift.nag import add_rules, flatten


def report(folder: Path) -> dict[str, Any]:
    """{plugin: its part of the report}"""
    document = json.loads((folder / "validation-report.json").read_text())
    return {item["pluginName"]: item for item in document["pluginReports"]}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_finding_without_a_reason(name: str, tmp_path: Path) -> None:
    # With the CDK's own validation in one of them: then a plain synthesis prints no warning either.
    environment = {**os.environ, "CDK_VALIDATION": "true" if name == "dev" else "false"}
    done = in_subprocess(name, tmp_path / "cdk.out", environment=environment, checks="nag")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = report(tmp_path / "cdk.out")
    assert found["AwsSolutions"]["violations"] == []
    for finding in found["AwsSolutions"]["suppressedViolations"]:
        assert len(finding["reason"]) > 30, finding


@pytest.mark.parametrize(
    "changes",
    [
        {
            "training.mode": "interactive",
            "sentiment.endpoint.instance_type": "ml.c6gd.4xlarge",
            "sentiment.endpoint.kms": False,
            "budget.monthly_usd": 100,
            "budget.email": "a@example.com",
            "alarms.email": "a@example.com",
        },
        {
            "training.mode": "skip",
            "training.weights_uri": "s3://weights/roberta/",
            "training.base_model": None,
            "training.data": None,
            "network.existing_vpc": {
                "vpc_id": "vpc-0123456789abcdef0",
                "cidr": "10.0.0.0/16",
                "private_subnet_ids": [f"subnet-0123456789abcdef{number}" for number in range(3)],
            },
        },
    ],
)
def test_other_settings(changes: dict[str, object], tmp_path: Path) -> None:
    path = edited("dev", changes, tmp_path)
    done = in_subprocess(str(path), tmp_path / "cdk.out", checks="nag")
    assert done.returncode == 0, done.stderr


Finding = tuple[str, str]
"""(rule, path of the construct)"""
EVERYTHING = {"training.mode": "interactive", "sentiment.endpoint.kms": False}
"""Settings that bring every acknowledgement of ours about."""


def findings(plugins: dict[str, Any], kind: str) -> set[Finding]:
    """The `violations` or `suppressedViolations` of all plugins."""
    return {
        (item["ruleName"], construct["constructPath"])
        for plugin in plugins.values()
        for item in plugin.get(kind, ())
        for construct in item["violatingConstructs"]
    }


def acknowledgements(folder: Path) -> set[tuple[str, str]]:
    """{(path, id of the finding)} of all that the constructs acknowledge themselves."""
    return {
        (path.lstrip("/"), finding)
        for file in folder.glob("*.metadata.json")
        for path, entries in json.loads(file.read_text()).items()
        for entry in entries
        if entry["type"] == "aws:cdk:acknowledged-rules"
        for finding in entry["data"]
    }


def test_every_reason_is_needed_and_stands_on_the_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its acknowledgement each finding comes back: no reason is dead, none hides more than its own."""
    import app as torchlift_app

    settings = edited("prod", EVERYTHING, tmp_path)
    done = in_subprocess(
        str(settings), tmp_path / "with", environment={**os.environ, "CDK_VALIDATION": "true"}, checks="nag"
    )
    assert done.returncode == 0, done.stderr
    plugins = report(tmp_path / "with")
    suppressed = findings(plugins, "suppressedViolations")
    used = {
        (item["acknowledgedAt"], item["acknowledgedId"])
        for plugin in plugins.values()
        for item in plugin.get("suppressedViolations", ())
    }
    own = acknowledgements(tmp_path / "with")
    assert {finding for _, finding in own} >= {
        "AwsSolutions::AwsSolutions-AS3",
        "AwsSolutions::AwsSolutions-EC29",
        "AwsSolutions::AwsSolutions-S1",
        "NIST.800.53.R5::NIST.800.53.R5-SageMakerEndpointConfigurationKMSKeyConfigured",
    }
    assert own <= used, "an acknowledgement that suppresses nothing"
    for item in (item for plugin in plugins.values() for item in plugin.get("suppressedViolations", ())):
        for construct in item["violatingConstructs"]:
            # On the resource, or on the role or bucket whose policy or part it is: never on a stack.
            assert construct["constructPath"].startswith(item["acknowledgedAt"])
            assert item["acknowledgedAt"].count("/") >= 1

    monkeypatch.setattr(cdk.Validations, "acknowledge", lambda *_: None)
    app = cdk.App(context={**CONTEXT, "deployment": str(settings), "checks": "nag"}, outdir=str(tmp_path / "without"))
    torchlift_app.build(app)
    with pytest.raises(RuntimeError):
        app.synth()
    assert findings(report(tmp_path / "without"), "violations") == suppressed


@pytest.fixture
def app(tmp_path: Path) -> cdk.App:
    return cdk.App(context=CONTEXT, outdir=str(tmp_path / "cdk.out"), builtin_cloud_formation_validation=False)


def synthesis_fails(app: cdk.App) -> str:
    add_rules(app)
    with pytest.raises(RuntimeError) as caught:
        app.synth()
    return str(caught.value)


def test_unexplained_bucket(app: cdk.App) -> None:
    s3.Bucket(cdk.Stack(app, "Stack"), "Bucket")
    assert "AwsSolutions-S1" in synthesis_fails(app)


def test_unexplained_wildcard(app: cdk.App) -> None:
    role = iam.Role(cdk.Stack(app, "Stack"), "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    permissions.allow(role, actions=["s3:GetObject"], resources=["arn:aws:s3:::b/mine/*"], why="its own prefix")
    role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=["arn:aws:s3:::b/theirs/*"]))
    text = synthesis_fails(app)
    assert "theirs" in text
    assert "mine" not in text


def test_unexplained_endpoint_without_a_key(app: cdk.App) -> None:
    sagemaker.CfnEndpointConfig(cdk.Stack(app, "Stack"), "Config", production_variants=[])
    assert "SageMakerEndpointConfigurationKMSKeyConfigured" in synthesis_fails(app)


def test_unexplained_metadata_service(app: cdk.App) -> None:
    cdk.aws_ec2.CfnInstance(cdk.Stack(app, "Stack"), "Instance", image_id="ami-0123456789abcdef0")
    assert "EC2IMDSv2Enabled" in synthesis_fails(app)


@pytest.mark.parametrize(
    ("actions", "resource", "why"),
    [(["s3:*"], "arn:aws:s3:::b/x", "any"), (["s3:Get*"], "arn:aws:s3:::b/x", "any"), (["s3:GetObject"], "*", None)],
)
def test_permissions_refuse_wildcards(app: cdk.App, actions: list[str], resource: str, why: str | None) -> None:
    role = iam.Role(cdk.Stack(app, "Stack"), "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    with pytest.raises(ValueError, match=r"written out|needs a reason"):
        permissions.allow(role, actions=actions, resources=[resource], why=why)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/*"),
        ({"Fn::Join": ["", [{"Fn::GetAtt": ["Bucket", "Arn"]}, "/*"]]}, "<Bucket.Arn>/*"),
        ({"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":x*"]]}, "arn:<AWS::Partition>:x*"),
        ({"Fn::Join": ["", [{"Fn::ImportValue": "Stack:Export"}, "/*"]]}, "Stack:Export/*"),
        ({"Fn::Sub": "${Bucket.Arn}/*"}, "<Bucket.Arn>/*"),
        ({"Fn::Select": [0, ["a"]]}, '{"Fn::Select":[0,["a"]]}'),
    ],
)
def test_resources_as_the_rules_write_them(value: object, text: str) -> None:
    assert flatten(value) == text
