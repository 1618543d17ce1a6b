"""Which outside hosts anything of ours needs, read from what it runs, and how it reaches them in either mode.

`docs/egress.md` holds the list for people; what is derived here must be what stands there.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from settings import REPO_ROOT, names
from stacks import bundles
from tests.stacks.synthesis import Synthesized
from torchlift.network_endpoints import INTERFACES, SECRETS

DOCUMENT = REPO_ROOT / "docs/egress.md"
# What a command line names → the services that it calls. Layers of images and signals are S3 objects.
CALLS = {
    "autoscaling": {"autoscaling"},
    "cloudformation": {"cloudformation"},
    "docker login": {"ecr.dkr"},
    "docker pull": {"ecr.dkr", "s3"},
    "docker push": {"ecr.dkr", "s3"},
    "ecr": {"ecr.api"},
    "logs": {"logs"},
    "s3": {"s3"},
    "s3api": {"s3"},
    "secretsmanager": {SECRETS},
    "awslogs": {"logs"},
    "$TORCHLIFT_HANDLE": {"s3"},
}
AGENT = {"ssm", "ssmmessages", "ec2messages"}
"""What Session Manager's agent on every instance calls."""
METADATA = "169.254.169.254"
NETWORK_LIBRARIES = {
    "aiohttp",
    "boto3",
    "botocore",
    "datasets",
    "ftplib",
    "httpx",
    "huggingface_hub",
    "requests",
    "socket",
    "urllib",
}
"""Modules that open connections; whoever imports one must be in the list."""


def shell_lines(*paths: str) -> Iterator[str]:
    """The lines of scripts that are no comments, continuation lines joined."""
    for path in paths:
        text = (REPO_ROOT / path).read_text().replace("\\\n", " ")
        yield from (line for line in text.splitlines() if not line.lstrip().startswith("#"))


def services_called(*paths: str) -> set[str]:
    """AWS services that shell scripts call. An `aws` command that is not in CALLS fails."""
    found: set[str] = set()
    for line in shell_lines(*paths):
        # The check that the programs are there names some that it does not run.
        if line.lstrip().startswith("for program in"):
            continue
        for service in re.findall(r"\baws ([a-z0-9-]+) [a-z]", line):
            found |= CALLS[service]
        for word in ("docker login", "docker pull", "docker push", "awslogs", "$TORCHLIFT_HANDLE"):
            if word in line:
                found |= CALLS[word]
    return found


def hosts_named(*paths: str) -> set[str]:
    """Host names in URLs of shell scripts."""
    return {host for line in shell_lines(*paths) for host in re.findall(r"https?://([A-Za-z0-9.-]+)", line)}


def imported(path: Path) -> set[str]:
    """Top-level modules that a Python file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


FLEET_SCRIPTS = tuple(
    str(path.relative_to(REPO_ROOT)) for path in sorted((REPO_ROOT / bundles.FLEET_HOST).glob("*.sh"))
)
HUB_LOADER = "model_code/sentiment/data.py"
JOB_SCRIPTS = tuple(
    str(path.relative_to(REPO_ROOT))
    for folder in (bundles.SCRIPTS, bundles.HOST)
    for path in sorted((REPO_ROOT / folder).glob("*.sh"))
    if path.name not in bundles.ONLY_FOR_IMAGES
)


def documented() -> dict[str, list[str]]:
    """{who: the cells of its row}"""
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells if set(row[0]) != {"-"}}


def in_cell(cell: str) -> set[str]:
    """The names in backticks of a cell."""
    return set(re.findall(r"`([^`]+)`", cell))


def test_what_a_training_instance_calls_is_what_is_listed() -> None:
    called = services_called(*JOB_SCRIPTS) | AGENT
    assert {"s3", "ecr.api", "ecr.dkr", "logs", "autoscaling"} <= called
    row = documented()["training instance"]
    assert in_cell(row[0]) == called
    assert called <= {*INTERFACES, "s3"}, "in mode endpoints there is no other way"


def test_what_a_fleet_host_calls_is_what_is_listed(synthesize: Callable[..., Synthesized]) -> None:
    # The servers follow their list of models.
    called = services_called(*FLEET_SCRIPTS) | AGENT | {"s3"}
    assert {"ecr.api", "ecr.dkr", "logs", "cloudformation", SECRETS} <= called
    assert in_cell(documented()["question-answering host"][0]) == called
    assert called <= {*INTERFACES, SECRETS, "s3"}, "in mode endpoints there is no other way"
    token = "arn:aws:secretsmanager:us-west-2:123456789012:secret:token-AbCdEf"
    for changes, there in (({}, False), ({"question_answering.token_secret_arn": token}, True)):
        made = synthesize("prod", {"network.egress": "endpoints", **changes})
        services = [item["Properties"]["ServiceName"] for item in made.resources("AWS::EC2::VPCEndpoint").values()]
        assert any(name.endswith(SECRETS) for name in services) == there


def test_instances_name_no_host_but_their_own_metadata() -> None:
    assert hosts_named(*JOB_SCRIPTS) == {METADATA}
    # A host's own servers, too.
    assert hosts_named(*FLEET_SCRIPTS) == {METADATA, "127.0.0.1"}


@pytest.mark.parametrize("path", [*JOB_SCRIPTS, *FLEET_SCRIPTS])
def test_nothing_is_installed_at_boot(path: str) -> None:
    for line in shell_lines(path):
        assert not re.search(r"\b(apt|apt-get|dnf|yum|pip|pip3|conda|npm|snap)\b +\S*(install|update|upgrade)", line)
        assert not re.search(r"\bgit clone\b|\bwget\b", line)


@pytest.mark.parametrize("modules", [bundles.TRAINING, bundles.PACKAGING], ids=["training", "package"])
def test_what_runs_in_containers_opens_no_connection(modules: tuple[str, ...]) -> None:
    for module in modules:
        # The loader's branch for `hf://`, which the mirror takes: training is given folders (see below).
        allowed = {"datasets"} if module == HUB_LOADER else set()
        assert not imported(REPO_ROOT / module) & NETWORK_LIBRARIES - allowed, module


def test_training_is_given_folders(deployment: Synthesized) -> None:
    templates = deployment.resources("AWS::EC2::LaunchTemplate").values()
    commands = [text for text in map(json.dumps, templates) if "model_code.sentiment.train" in text]
    assert len(commands) == 1
    command = commands[0].partition("TORCHLIFT_COMMAND")[2].partition("TORCHLIFT_")[0]
    assert "--data inputs/" in command and "--base-model inputs/" in command
    assert "://" not in command


def test_only_the_mirror_reads_the_hub() -> None:
    readers = {
        str(path.relative_to(REPO_ROOT / "model_code"))
        for path in sorted((REPO_ROOT / "model_code").rglob("*.py"))
        if imported(path) & {"huggingface_hub", "datasets"}
    }
    assert readers == {"hub_mirror.py", HUB_LOADER.removeprefix("model_code/")}


@pytest.mark.parametrize("image", ["sentiment-serving", "sentiment-training", "tensorrt-builder"])
def test_containers_never_ask_the_hub(image: str) -> None:
    """transformers would look there for files that a folder lacks, and wait for the answer."""
    assert re.search(r"\bHF_HUB_OFFLINE=1\b", (REPO_ROOT / f"containers/{image}/Dockerfile").read_text())


def placed_in_subnets(assembly: Synthesized) -> dict[str, set[str]]:
    """{type: logical ids} of everything that lies in the VPC's subnets."""
    found: dict[str, set[str]] = {}
    for template in assembly.templates.values():
        for name, resource in template["Resources"].items():
            properties: dict[str, Any] = resource.get("Properties", {})
            keys = {"VpcConfig", "SubnetIds", "VPCZoneIdentifier", "Subnets"} & set(properties)
            template_data = properties.get("LaunchTemplateData", {})
            if keys or any("SubnetId" in item for item in template_data.get("NetworkInterfaces", [])):
                found.setdefault(resource["Type"], set()).add(name)
    return found


def test_who_lies_in_the_network(prod: Synthesized, synthesize: Callable[..., Synthesized]) -> None:
    """Whatever else comes to lie there needs a row, and a way to what it calls."""
    box = synthesize("prod", {"training.mode": "interactive"})
    assert {"engine instance", "text encoding endpoint"} <= set(documented())
    rows = {
        "AWS::AutoScaling::AutoScalingGroup": "training instance",
        "AWS::EC2::LaunchTemplate": "development box",
        "AWS::ElasticLoadBalancingV2::LoadBalancer": "load balancer",
        "AWS::SageMaker::Model": "sentiment endpoint",
        "AWS::EC2::VPCEndpoint": None,
    }
    assert set(placed_in_subnets(box)) == set(rows)
    assert {row for row in rows.values() if row} <= set(documented())


def test_builds_and_functions_lie_outside(deployment: Synthesized) -> None:
    """So they reach the internet in either mode, and hold no network interface."""
    outside = [
        *deployment.resources("AWS::CodeBuild::Project").values(),
        *deployment.resources("AWS::Lambda::Function").values(),
    ]
    assert len(outside) >= 5
    for item in outside:
        assert "VpcConfig" not in item["Properties"]


def test_hosts_of_builds_are_what_is_listed(prod: Synthesized) -> None:
    """Package index, hub and base image registry: read from the build commands and the Dockerfiles."""
    projects = prod.resources("AWS::CodeBuild::Project")
    needed: dict[str, set[str]] = {}
    for start in prod.resources("Custom::StartJob").values():
        variables = start["Properties"].get("Environment")
        if variables is None:
            continue
        project = projects[start["Properties"]["ProjectName"]["Ref"]]
        spec = json.dumps(project["Properties"]["Source"]["BuildSpec"])
        job, command = variables["TORCHLIFT_JOB"], json.dumps(variables["TORCHLIFT_COMMAND"])
        hosts = needed.setdefault(job, set())
        if "pip install" in spec + command:
            hosts.add("pypi.org")
        if "hub_mirror" in command:
            hosts.add("huggingface.co")
        if "/build.sh" in command:
            hosts.add("ecr.dkr")
            hosts |= {"pypi.org"} if "pip install" in dockerfile(variables) else set()
            hosts |= set(re.findall(r"--index-url https://([\w.]+)/", dockerfile(variables)))
            hosts |= {"archive.ubuntu.com", "security.ubuntu.com"} if "apt-get " in dockerfile(variables) else set()
            assert not re.search(r"\b(curl|wget|apt|dnf|git)\b .*", dockerfile(variables)), "a new host"
        if "/run.sh" in command:
            hosts.add("ecr.dkr")
    assert set(needed) == set(names.JOBS) - set(names.INSTANCE_JOBS)
    for job, hosts in needed.items():
        listed = in_cell(documented()[f"build {job}"][0])
        assert {host for host in listed if "." in host and host not in {"files.pythonhosted.org", "ecr.api"}} == hosts


def dockerfile(variables: dict[str, Any]) -> str:
    """The instructions of the Dockerfile that a build of an image uses."""
    name = re.search(r"containers/([a-z-]+)", json.dumps(variables))
    assert name is not None
    lines = (REPO_ROOT / "containers" / name[1] / "Dockerfile").read_text().splitlines()
    # A health check asks the container itself.
    return "\n".join(line for line in lines if not line.startswith("#") and "http://127.0.0.1" not in line)


def test_the_endpoint_may_only_reach_https(deployment: Synthesized) -> None:
    """SageMaker fetches the archive through the VPC; the container itself, isolated, reaches nothing."""
    models = deployment.resources("AWS::SageMaker::Model").values()
    assert [model["Properties"]["EnableNetworkIsolation"] for model in models] == [True, True]
    groups = [
        item["Properties"]
        for item in deployment.resources("AWS::EC2::SecurityGroup").values()
        if "SageMaker endpoint" in str(item["Properties"]["GroupDescription"])
    ]
    assert len(groups) == 2
    for group in groups:
        assert [(rule["FromPort"], rule["ToPort"]) for rule in group["SecurityGroupEgress"]] == [(443, 443)]


def test_the_default_model_and_data_are_pinned(deployment: Synthesized) -> None:
    for start in deployment.resources("Custom::StartJob").values():
        variables = start["Properties"].get("Environment", {})
        if variables.get("TORCHLIFT_JOB") == "hub-mirror":
            found = re.findall(r"hf://[^@ ]+@([0-9a-f]+)", variables["TORCHLIFT_COMMAND"])
            model_only = "--data" not in variables["TORCHLIFT_COMMAND"]
            assert len(found) == (1 if model_only else 2) and all(len(revision) == 40 for revision in found)
