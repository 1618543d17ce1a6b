"""The job constructs by themselves, in a small app of their own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Template

from tests.constructs.fixture_app import Options, build
from torchlift.build_job import buildspec
from torchlift.instance_job import render_user_data
from torchlift.job_data import JobInput, JobResult
from torchlift.launch_template import Machine

JOB = re.compile(r"^(HubMirror|SentimentImage|SentimentTrain)([0-9a-f]{16})[0-9a-f]{8}")
ALL = {"HubMirror", "SentimentImage", "SentimentTrain"}


def resources(options: Options | None = None) -> dict[str, Any]:
    found: dict[str, Any] = Template.from_stack(build(options)).to_json()["Resources"]
    return found


def of_jobs(found: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in found.items() if JOB.match(name)}


def hashes(found: dict[str, Any]) -> dict[str, str]:
    return {match[1]: match[2] for match in map(JOB.match, found) if match}


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return resources()


def test_everything_of_a_job_carries_its_hash(plain: dict[str, Any]) -> None:
    assert set(hashes(plain)) == ALL
    for name, item in plain.items():
        if item["Type"] in ("AWS::CodeBuild::Project", "Custom::StartJob", "AWS::CloudFormation::WaitCondition"):
            assert JOB.match(name)


@pytest.mark.parametrize(
    "options",
    [
        Options(owner="another team"),
        Options(retention=logs.RetentionDays.ONE_YEAR),
        Options(alarm=True),
        Options(interactive=True),
    ],
)
def test_what_is_no_business_of_a_job(options: Options, plain: dict[str, Any]) -> None:
    assert of_jobs(resources(options)) == of_jobs(plain)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (Options(learning_rate=2e-5), {"SentimentTrain"}),
        (Options(base_model="hf://roberta-base@" + "0" * 40), {"HubMirror", "SentimentTrain"}),
        (
            Options(paths=("scripts", "hosts/instance_job", "model_code")),
            {"HubMirror", "SentimentImage", "SentimentTrain"},
        ),
        (Options(compute_type="BUILD_GENERAL1_LARGE"), set()),
        (Options(deadline_minutes=60), set()),
        (Options(zones=("us-west-2a", "us-west-2b")), set()),
    ],
)
def test_hashes(options: Options, changed: set[str], plain: dict[str, Any]) -> None:
    before, after = hashes(plain), hashes(resources(options))
    assert {job for job in before if before[job] != after[job]} == changed


@pytest.mark.parametrize(
    ("options", "job"),
    [
        (Options(compute_type="BUILD_GENERAL1_LARGE"), "HubMirror"),
        (Options(deadline_minutes=60), "SentimentTrain"),
        (Options(zones=("us-west-2a", "us-west-2b")), "SentimentTrain"),
    ],
)
def test_details_replace_and_never_edit(options: Options, job: str, plain: dict[str, Any]) -> None:
    """An edited job's update would be rolled back to old properties; a new one is simply removed."""
    after = resources(options)
    assert not {name for name in of_jobs(plain) if name.startswith(job)} & set(after)


def test_who_tells_of_an_end_may_look_for_any_hash(plain: dict[str, Any]) -> None:
    """An instance ends after its signal, when an update or a rollback may have put another hash in its job's place."""

    def listed(found: dict[str, Any]) -> dict[str, list[Any]]:
        return {
            name: [one for one in item["Properties"]["PolicyDocument"]["Statement"] if "s3:ListBucket" in one["Action"]]
            for name, item in found.items()
            if item["Type"] == "AWS::IAM::Policy" and name.startswith("Jobs")
        }

    other = resources(Options(learning_rate=2e-5))
    assert hashes(other) != hashes(plain)
    assert listed(other) == listed(plain) and any("SignalJob" in name and rows for name, rows in listed(plain).items())


def test_waits_forever_equal(plain: dict[str, Any]) -> None:
    conditions = [item for item in plain.values() if item["Type"] == "AWS::CloudFormation::WaitCondition"]
    assert len(conditions) == 3
    assert {(item["Properties"]["Count"], item["Properties"]["Timeout"]) for item in conditions} == {(1, "43200")}


def test_tags_of_others_stay_out(plain: dict[str, Any]) -> None:
    text = json.dumps(of_jobs(plain))
    assert '"owner"' not in text
    assert '"torchlift:job"' in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(deadline_minutes=661), "5 minutes to 11 hours"),
        (Options(deadline_minutes=4), "5 minutes to 11 hours"),
        (Options(paths=("scripts",)), "lacks hosts/instance_job"),
    ],
)
def test_refused(options: Options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(options)


MACHINE: dict[str, Any] = {"instance_type": "p4d.24xlarge", "root_volume_gib": 200, "ami_id": "ami-1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ami_id": None}, "either"),
        ({"ami_parameter": "/aws/service/x"}, "either"),
        ({"purchase": "cheap"}, "purchase is one of"),
        ({"purchase": "capacity-block"}, "capacity_reservation_id"),
        ({"purchase": "spot", "capacity_reservation_id": "cr-1"}, "reservation"),
    ],
)
def test_machines_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Machine(**{**MACHINE, **changes})


@pytest.mark.parametrize(
    ("changes", "device"),
    [
        ({"ami_id": None, "ami_parameter": "/aws/service/x/ubuntu-22.04/id"}, "/dev/sda1"),
        ({"ami_id": None, "ami_parameter": "/aws/service/x/al2023/id"}, "/dev/xvda"),
        ({"ami_id": "ami-0123456789abcdef0"}, "/dev/sda1"),
        ({"root_device_name": "/dev/nvme0"}, "/dev/nvme0"),
    ],
)
def test_root_device(changes: dict[str, Any], device: str) -> None:
    assert Machine(**{**MACHINE, **changes}).root_device == device


def test_a_box_is_never_on_spot() -> None:
    machine = replace(Options().machine, purchase="spot")
    with pytest.raises(ValueError, match="spot"):
        build(Options(interactive=True, machine=machine))


def test_user_data_is_quoted_for_the_shell() -> None:
    text = render_user_data({"TORCHLIFT_COMMAND": "echo 'it is'; $(rm -rf /)"})
    assert """TORCHLIFT_COMMAND='echo '"'"'it is'"'"'; $(rm -rf /)'""" in text
    assert "@JOB_ENVIRONMENT@" not in text


def test_user_data_fits(plain: dict[str, Any]) -> None:
    (template,) = [item for item in plain.values() if item["Type"] == "AWS::EC2::LaunchTemplate"]
    data = template["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    pieces = data["Fn::Join"][1] if isinstance(data, dict) else [data]
    assert sum(len(item) if isinstance(item, str) else 400 for item in pieces) < 16 * 1024


def test_long_user_data_is_refused() -> None:
    from torchlift.launch_template import check_user_data

    with pytest.raises(ValueError, match="move text into the source bundle"):
        check_user_data("#" * 15_000)


def test_buildspec_runs_one_script_whose_end_is_the_builds() -> None:
    """One command a line: CodeBuild stops at the first that fails."""
    document = json.loads(buildspec(["pip install x==1"]))
    assert document["phases"]["install"]["commands"] == ["pip install x==1"]
    assert document["phases"]["build"]["commands"][-1] == 'bash "$TORCHLIFT_HOME/scripts/run_job.sh"'
    assert "install" not in json.loads(buildspec([]))["phases"]


@pytest.mark.parametrize("prefix", ["weights/x", "/weights/x/"])
def test_prefixes(prefix: str) -> None:
    bucket = cdk.aws_s3.Bucket.from_bucket_name(cdk.Stack(), "Bucket", "bucket")
    with pytest.raises(ValueError, match="ends in a slash"):
        JobResult.in_s3(bucket=bucket, prefix=prefix)


@pytest.mark.parametrize("uri", ["bucket/x", "s3://bucket", "s3:///x", "https://bucket/x"])
def test_inputs(uri: str) -> None:
    with pytest.raises(ValueError, match="is not s3"):
        JobInput.from_uri(cdk.Stack(), "Input", name="data", uri=uri)


def test_an_image_is_no_input_and_a_prefix_no_image() -> None:
    stack = cdk.Stack()
    repository = cdk.aws_ecr.Repository.from_repository_name(stack, "Repository", "repository")
    bucket = cdk.aws_s3.Bucket.from_bucket_name(stack, "Bucket", "bucket")
    with pytest.raises(ValueError, match="only results in S3"):
        JobInput.from_result(name="x", result=JobResult.in_ecr(repository=repository, tag="t"))
    with pytest.raises(ValueError, match="not an image"):
        _ = JobResult.in_s3(bucket=bucket, prefix="x/").image_uri
