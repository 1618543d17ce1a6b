"""The checks of docs/checks.md that no other test holds, and that the document tells the truth."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest

from settings import REPO_ROOT
from settings.hardware import ml_instance
from settings.images import IMAGES
from settings.triton import RELEASES
from tests.stacks.synthesis import Synthesized, statements

DOCUMENT = REPO_ROOT / "docs/checks.md"
SECRETS = re.compile(r"AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY|hf_[A-Za-z0-9]{30,}|aws_secret", re.I)
SECRET_NAMES = re.compile(r"PASSWORD|SECRET|TOKEN(?!IZER)|API_?KEY|CREDENTIAL", re.I)


def rows() -> list[list[str]]:
    """The cells of the document's table: number, check, source, where shown."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_document_is_numbered_and_whole() -> None:
    assert [int(row[0]) for row in rows()] == list(range(1, len(rows()) + 1))
    assert len(rows()) >= 44
    assert all(len(row) == 4 and all(row) for row in rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_what_shows_a_check_exists(row: list[str]) -> None:
    """A test by file and name, or a command of the Makefile or of the gate."""
    shown = re.findall(r"`([^`]+)`", row[3])
    assert shown, "nothing shows it"
    for name in shown:
        if "::" not in name:
            assert re.search(rf"^\t.*\b{name}\b", (REPO_ROOT / "Makefile").read_text(), re.MULTILINE), name
            continue
        file, _, test = name.partition("::")
        tree = ast.parse((REPO_ROOT / "tests" / file).read_text())
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def test_production_keeps_two_instances(prod: Synthesized) -> None:
    for config in prod.resources("AWS::SageMaker::EndpointConfig").values():
        assert all(variant["InitialInstanceCount"] >= 2 for variant in config["Properties"]["ProductionVariants"])
    assert all(item["Properties"]["MinCapacity"] >= 2 for item in scalable_targets(prod))


def scalable_targets(assembly: Synthesized) -> list[dict[str, Any]]:
    found = list(assembly.resources("AWS::ApplicationAutoScaling::ScalableTarget").values())
    assert found
    return found


def test_no_notebooks(deployment: Synthesized) -> None:
    types = {item["Type"] for template in deployment.templates.values() for item in template["Resources"].values()}
    assert not {name for name in types if "Notebook" in name or "::SageMaker::Domain" in name}


def test_roles_are_passed_to_one_service_only(deployment: Synthesized) -> None:
    for template in deployment.templates.values():
        for name, statement in statements(template):
            if "iam:PassRole" in json.dumps(statement["Action"]):
                assert "iam:PassedToService" in json.dumps(statement.get("Condition", {})), name
                assert statement["Resource"] != "*", name


def test_every_group_and_rule_says_what_it_is_for(deployment: Synthesized) -> None:
    groups = [item["Properties"] for item in deployment.resources("AWS::EC2::SecurityGroup").values()]
    assert groups
    for group in groups:
        assert group["GroupDescription"]
        for side in ("Ingress", "Egress"):
            # CDK's own rule that disallows everything has its own text.
            assert all(rule.get("Description") for rule in group.get(f"SecurityGroup{side}", ()))


def test_instances_are_monitored_in_detail(deployment: Synthesized) -> None:
    templates = deployment.resources("AWS::EC2::LaunchTemplate").values()
    assert templates
    for template in templates:
        data = template["Properties"]["LaunchTemplateData"]
        assert data["Monitoring"] == {"Enabled": True}
        assert data["IamInstanceProfile"]
        assert "KeyName" not in data


def test_user_data_stops_at_the_first_fault_and_tells(deployment: Synthesized) -> None:
    for template in deployment.resources("AWS::EC2::LaunchTemplate").values():
        text = json.dumps(template["Properties"]["LaunchTemplateData"]["UserData"])
        first = text.index("set -euo pipefail")
        assert first < text.index("trap 'give_up") < text.index("aws s3 cp")


def test_no_secrets_anywhere(deployment: Synthesized) -> None:
    assert not SECRETS.search(json.dumps(deployment.templates))
    for model in deployment.resources("AWS::SageMaker::Model").values():
        properties = model["Properties"]
        for container in [properties.get("PrimaryContainer"), *properties.get("Containers", [])]:
            if container:
                assert not [name for name in container.get("Environment", {}) if SECRET_NAMES.search(name)]


def test_the_key_rotates_and_is_for_this_account(deployment: Synthesized) -> None:
    key = deployment.one("AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    for statement in key["KeyPolicy"]["Statement"]:
        assert statement["Principal"] != "*" and statement["Principal"] != {"AWS": "*"}


def test_the_topic_is_encrypted_and_takes_tls_only(deployment: Synthesized) -> None:
    assert deployment.one("AWS::SNS::Topic")["KmsMasterKeyId"]
    policy = deployment.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    denied = [item for item in policy if item["Effect"] == "Deny"]
    assert denied and denied[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_timeouts_of_variants_are_explicit(deployment: Synthesized) -> None:
    for config in deployment.resources("AWS::SageMaker::EndpointConfig").values():
        for variant in config["Properties"]["ProductionVariants"]:
            for name in ("ContainerStartupHealthCheckTimeoutInSeconds", "ModelDataDownloadTimeoutInSeconds"):
                assert 60 <= variant[name] <= 3600


def test_images_match_the_instances_that_run_them(deployment: Synthesized) -> None:
    """The serving image's base and builder are of the endpoint's architecture."""
    for stack, arch, builder in (("Graviton", "arm64", "ARM_CONTAINER"), ("MultiModel", "x86_64", "LINUX_CONTAINER")):
        (config,) = deployment.resources("AWS::SageMaker::EndpointConfig", stack).values()
        for variant in config["Properties"]["ProductionVariants"]:
            assert ml_instance(variant["InstanceType"]).arch == arch
        images = [
            item["Properties"]["Environment"]["Type"]
            for item in deployment.resources("AWS::CodeBuild::Project", stack).values()
            if item["Properties"]["Environment"]["PrivilegedMode"]
        ]
        assert set(images) == {builder}
    assert IMAGES["pytorch-inference-arm64"].arch == "arm64"
    assert {release.image.arch for release in RELEASES.values()} == {"x86_64"}


def test_stacks_say_whose_they_are(deployment: Synthesized) -> None:
    assert all(template["Description"].startswith("Torchlift ") for template in deployment.templates.values())
    for artifact in deployment.manifest["artifacts"].values():
        if artifact["type"] == "aws:cloudformation:stack":
            assert {"torchlift:deployment", "torchlift:owner"} <= set(artifact["properties"]["tags"])
