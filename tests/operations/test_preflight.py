"""Preflight: each check passes, fails or says that it may not look, and none of them stops the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from operations.account import Account
from operations.cli import main
from operations.preflight import access, checks, quotas
from operations.preflight.commands import CHECKS, look
from operations.preflight.machines import machines
from operations.preflight.row import Row
from settings import Settings, load_settings
from settings.question_answering_models import QuestionAnswering
from tests.operations.deployed import client
from tests.stacks.synthesis import Synthesized

pytestmark = pytest.mark.usefixtures("account")

Answers = dict[str, Any]
"""{operation: response, or an exception, or a function of the parameters}; all else goes to moto."""


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give AWS's answers to some operations."""
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def give(**answers: Any) -> None:
        def call(self: BaseClient, operation: str, kwargs: dict[str, Any]) -> Any:
            given = answers.get(operation)
            if given is None:
                return real(self, operation, kwargs)
            made = given(kwargs) if callable(given) else given
            if isinstance(made, Exception):
                raise made
            return made

        monkeypatch.setattr(BaseClient, "_make_api_call", call)

    return give


def denied(operation: str, action: str) -> ClientError:
    said = f"User: x is not authorized to perform: {action} on resource: *"
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": said}}, operation)


def account(name: str = "dev", **training: Any) -> Account:
    settings: Settings = load_settings(name)
    assert settings.training is not None
    alone = {"text_encoding": None, "question_answering": None}
    changed = {"training": settings.training.model_copy(update=training), **alone}
    return Account(settings.model_copy(update=changed))


def encoding_only(**encoding: Any) -> Account:
    """`dev` with nothing but its text encoding."""
    settings = load_settings("dev")
    assert settings.text_encoding is not None
    left = settings.text_encoding.model_copy(update=encoding)
    alone = {"training": None, "sentiment": None, "question_answering": None}
    return Account(settings.model_copy(update={"text_encoding": left, **alone}))


def answering_only(**answering: Any) -> Account:
    """`dev` with nothing but question answering."""
    section = QuestionAnswering(model="hf://a/b@1", ami_parameter="/aws/service/none/such", **answering)
    only = {"training": None, "sentiment": None, "text_encoding": None, "question_answering": section}
    return Account(load_settings("dev").model_copy(update=only))


def only(rows: Any) -> Row:
    (row,) = rows
    assert isinstance(row, Row)
    return row


def test_the_account_is_that_of_the_settings() -> None:
    here, unset = checks.identity(account())
    assert here.level == "pass" and "123456789012" in here.found and unset.level == "warn"
    settings = load_settings("dev")
    for wanted, level in (("123456789012", "pass"), ("999999999999", "fail")):
        deployment = settings.deployment.model_copy(update={"account": wanted})
        row = only(checks.identity(Account(settings.model_copy(update={"deployment": deployment}))))
        assert row.level == level and wanted in row.found


@pytest.mark.parametrize(("version", "level"), [(None, "fail"), ("5", "fail"), ("6", "pass"), ("30", "pass")])
def test_bootstrap(version: str | None, level: str) -> None:
    if version is not None:
        client("ssm").put_parameter(Name=checks.BOOTSTRAP, Value=version, Type="String")
    row = only(checks.bootstrap(account()))
    assert row.level == level and ("cdk bootstrap" in row.todo) == (level == "fail")


def test_the_bootstrap_version_is_what_the_app_asks_for(dev: Synthesized) -> None:
    wanted = {
        artifact["properties"]["requiresBootstrapStackVersion"]
        for artifact in json.loads((dev.folder / "manifest.json").read_text())["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    assert wanted == {checks.BOOTSTRAP_VERSION}


def test_training_vcpus_by_type_and_purchase(answer: Callable[..., None]) -> None:
    asked: list[str] = []

    def quota(kwargs: dict[str, Any]) -> dict[str, Any]:
        asked.append(kwargs["QuotaCode"])
        return {"Quota": {"Value": 96.0}}

    answer(GetServiceQuota=quota)
    for kind, purchase, code, level in (
        ("p4d.24xlarge", "on-demand", "L-417A185B", "pass"),
        ("p5.48xlarge", "spot", "L-C4BD4855", "fail"),
        ("p4d.24xlarge", "spot", "L-7212CCBC", "pass"),
        ("g5.xlarge", "on-demand", "L-DB2E81BA", "pass"),
        ("g6.48xlarge", "spot", "L-3819A6DF", "fail"),
    ):
        row = only(quotas.job_vcpus(account(instance_type=kind, purchase=purchase)))
        assert row.level == level and asked[-1] == code
    assert list(quotas.job_vcpus(account(purchase="capacity-block"))) == []


def test_a_quota_never_raised_has_its_default(answer: Callable[..., None]) -> None:
    missing = ClientError({"Error": {"Code": "NoSuchResourceException", "Message": "no"}}, "GetServiceQuota")
    answer(GetServiceQuota=missing, GetAWSDefaultServiceQuota={"Quota": {"Value": 0.0}})
    row = only(quotas.job_vcpus(account()))
    assert row.level == "fail" and row.found == "0 of 96 vCPU needed"


@pytest.mark.parametrize(("value", "level"), [(4.0, "pass"), (3.0, "fail")])
def test_endpoint_instances_are_twice_the_most_in_service(
    value: float, level: str, answer: Callable[..., None]
) -> None:
    listed = {"Quotas": [{"QuotaName": "ml.c7g.4xlarge for endpoint usage", "Value": value}]}
    answer(ListServiceQuotas=listed)
    assert only(quotas.endpoint_instances(account())).level == level


def test_text_encoding_needs_gpus_to_build_and_to_serve(answer: Callable[..., None]) -> None:
    def value(kwargs: dict[str, Any]) -> dict[str, Any]:
        assert kwargs["QuotaCode"] == "L-DB2E81BA"
        return {"Quota": {"Value": 0.0}}

    answer(
        GetServiceQuota=value,
        ListServiceQuotas={"Quotas": [{"QuotaName": "ml.g5.xlarge for endpoint usage", "Value": 3.0}]},
    )
    building = only(quotas.job_vcpus(encoding_only()))
    assert building.level == "fail" and "G and VT instances (text_encoding)" in building.name
    assert building.found == "0 of 4 vCPU needed"
    serving = only(quotas.endpoint_instances(encoding_only()))
    assert serving.name == "ml.g5.xlarge for endpoint usage" and serving.found == "3 of 4 instances needed"


def test_the_engines_machine_and_the_triton_image_are_looked_up(answer: Callable[..., None]) -> None:
    asked: list[dict[str, Any]] = []

    def images(kwargs: dict[str, Any]) -> dict[str, Any]:
        asked.append(kwargs)
        return {"imageDetails": [{}]}

    answer(DescribeInstanceTypeOfferings={"InstanceTypeOfferings": []}, DescribeImages=images)
    assert only(checks.offering(encoding_only())).todo == "other zones, region or type of text_encoding"
    missing = only(checks.machine_image(encoding_only(ami_parameter="/aws/service/none/such")))
    assert missing.level == "fail" and missing.todo == "correct text_encoding.ami_parameter"
    assert only(checks.base_images(encoding_only())).name == "base image sagemaker-tritonserver"
    assert asked[0]["repositoryName"] == "sagemaker-tritonserver" and asked[0]["imageIds"] == [
        {"imageTag": "25.09-py3"}
    ]


def test_the_fleet_at_its_largest_its_zones_its_ami_and_its_base_image(answer: Callable[..., None]) -> None:
    asked: list[str] = []

    def quota(kwargs: dict[str, Any]) -> dict[str, Any]:
        asked.append(kwargs["QuotaCode"])
        return {"Quota": {"Value": 12.0}}

    answer(GetServiceQuota=quota, DescribeInstanceTypeOfferings={"InstanceTypeOfferings": [{"Location": "us-west-2a"}]})
    row = only(quotas.job_vcpus(answering_only(max_instances=3)))
    assert row.level == "pass" and row.name == "Running On-Demand Inf instances (question_answering)"
    row = only(quotas.job_vcpus(answering_only(instance_type="inf2.8xlarge", purchase="spot")))
    assert row.level == "fail" and row.found == "12 of 64 vCPU needed" and asked == ["L-1945791B", "L-B5D1601B"]
    assert only(checks.offering(answering_only(zones=("us-west-2a",)))).level == "pass"
    row = only(checks.offering(answering_only()))
    assert row.level == "warn" and row.todo == "leave them out of question_answering.zones"
    assert only(checks.machine_image(answering_only())).todo == "correct question_answering.ami_parameter"
    answer(DescribeImages={"imageDetails": [{}]})
    row = only(checks.base_images(answering_only()))
    assert row.name == "base image pytorch-inference-neuronx" and "sdk2.31.1" in row.found


def test_the_certificate_must_be_issued(answer: Callable[..., None]) -> None:
    arn = "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"
    assert list(access.certificate(answering_only())) == [] == list(access.certificate(account()))
    for status, level in (("ISSUED", "pass"), ("PENDING_VALIDATION", "fail")):
        answer(DescribeCertificate={"Certificate": {"Status": status, "DomainName": "qa.example.com"}})
        row = only(access.certificate(answering_only(certificate_arn=arn)))
        assert row.level == level and "qa.example.com" in row.found
    answer(DescribeCertificate=ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeCertificate"))
    assert only(access.certificate(answering_only(certificate_arn=arn))).todo == "correct certificate_arn"


def test_the_secret_must_have_a_value() -> None:
    secrets = client("secretsmanager")
    assert list(access.secret(answering_only())) == [] == list(access.secret(account()))
    arn = secrets.create_secret(Name="qa", SecretString="token")["ARN"]
    empty = secrets.create_secret(Name="empty")["ARN"]
    assert only(access.secret(answering_only(token_secret_arn=arn))).level == "pass"
    assert "no value" in only(access.secret(answering_only(token_secret_arn=empty))).found
    foreign = secrets.create_secret(Name="foreign", SecretString="token", KmsKeyId="alias/mine")["ARN"]
    assert "hosts may not use" in only(access.secret(answering_only(token_secret_arn=foreign))).found
    secrets.delete_secret(SecretId=arn)
    assert "being deleted" in only(access.secret(answering_only(token_secret_arn=arn))).found
    missing = "arn:aws:secretsmanager:us-west-2:123456789012:secret:none-AbCdEf"
    assert only(access.secret(answering_only(token_secret_arn=missing))).level == "fail"


def test_builders_of_each_kind_and_one_that_is_not_listed(answer: Callable[..., None]) -> None:
    names = {"Linux/Large": 0.0, "ARM/Small": 1.0}
    listed = [
        {"QuotaName": f"Concurrently running builds for {kind} environment", "Value": value}
        for kind, value in names.items()
    ]
    answer(ListServiceQuotas={"Quotas": listed}, ListAWSDefaultServiceQuotas={"Quotas": []})
    levels = {row.name: row.level for row in quotas.builders(account())}
    assert levels == {"CodeBuild Linux/Large": "fail", "CodeBuild ARM/Small": "pass", "CodeBuild ARM/Medium": "warn"}


@pytest.mark.parametrize(("value", "levels"), [(1.0, ["fail", "pass", "pass"]), (5.0, ["pass", "pass", "pass"])])
def test_network_counts_what_is_there(value: float, levels: list[str], answer: Callable[..., None]) -> None:
    answer(GetServiceQuota={"Quota": {"Value": value}})
    # moto's account has a default VPC.
    assert [row.level for row in quotas.network(account("dev"))] == levels
    assert [row.name for row in quotas.network(account("prod"))] == ["VPCs per Region"]


@pytest.mark.parametrize(
    ("offered", "level"),
    [((), "fail"), (("us-west-2a",), "warn"), (("us-west-2a", "us-west-2b", "us-west-2c"), "pass")],
)
def test_the_training_type_is_offered(offered: tuple[str, ...], level: str, answer: Callable[..., None]) -> None:
    answer(DescribeInstanceTypeOfferings={"InstanceTypeOfferings": [{"Location": zone} for zone in offered]})
    row = only(checks.offering(account()))
    assert row.level == level and (level != "warn" or row.found == "not in us-west-2b, us-west-2c")


@pytest.mark.parametrize(
    ("changes", "level", "told"),
    [
        ({}, "pass", "active"),
        ({"State": "scheduled", "StartDate": datetime(2030, 1, 2, tzinfo=UTC)}, "warn", "2030-01-02"),
        ({"State": "expired"}, "fail", "expired"),
        ({"InstanceType": "p5.48xlarge"}, "fail", "p5.48xlarge"),
        ({"AvailabilityZone": "us-west-2d"}, "fail", "us-west-2d"),
        ({"EndDate": datetime.now(UTC) + timedelta(minutes=30)}, "fail", "360 minutes"),
    ],
)
def test_the_capacity_reservation(changes: dict[str, Any], level: str, told: str, answer: Callable[..., None]) -> None:
    held = {"InstanceType": "p4d.24xlarge", "AvailabilityZone": "us-west-2a", "State": "active"} | changes
    answer(DescribeCapacityReservations={"CapacityReservations": [held]})
    row = only(checks.reservation(account(capacity_reservation_id="cr-0123456789abcdef0")))
    assert row.level == level and told in row.found


def test_a_capacity_reservation_that_does_not_exist(answer: Callable[..., None]) -> None:
    code = "InvalidCapacityReservationId.NotFound"
    answer(DescribeCapacityReservations=ClientError({"Error": {"Code": code}}, "DescribeCapacityReservations"))
    assert only(checks.reservation(account(capacity_reservation_id="cr-0123456789abcdef0"))).level == "fail"


def test_the_ami_is_there() -> None:
    images = client("ec2").describe_images()["Images"]
    for root, level in (("/dev/sda1", "pass"), ("/dev/xvda", "fail")):
        image = next(one["ImageId"] for one in images if one["RootDeviceName"] == root)
        assert only(checks.machine_image(account(ami_id=image, ami_parameter=None))).level == level
    assert only(checks.machine_image(account(ami_id="ami-0123456789abcdef0", ami_parameter=None))).level == "fail"
    missing = only(checks.machine_image(account(ami_id=None, ami_parameter="/aws/service/none/such")))
    assert missing.level == "fail" and "/aws/service/none/such" in missing.found


def test_base_images(answer: Callable[..., None]) -> None:
    answer(DescribeImages={"imageDetails": [{}]})
    assert [row.level for row in checks.base_images(account())] == ["pass", "pass"]
    answer(DescribeImages=ClientError({"Error": {"Code": "ImageNotFoundException"}}, "DescribeImages"))
    assert [row.level for row in checks.base_images(account())] == ["fail", "fail"]


def test_somebody_is_told() -> None:
    settings = load_settings("dev")
    assert [row.level for row in checks.people(Account(settings))] == ["warn", "warn"]
    told = settings.model_copy(
        update={
            "alarms": settings.alarms.model_copy(update={"email": "team@example.com"}),
            "budget": settings.budget.model_copy(update={"monthly_usd": 100}),
        }
    )
    assert [row.level for row in checks.people(Account(told))] == ["pass", "pass"]


def test_a_refused_check_is_a_row_and_the_rest_goes_on(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    operations = ("GetServiceQuota", "ListServiceQuotas", "DescribeInstanceTypeOfferings", "DescribeImages")
    answer(**{name: denied(name, f"service:{name}") for name in operations})
    rows = look(account())
    refused = [row for row in rows if row.found.startswith("not allowed: service:")]
    assert len(refused) >= 5 and all(row.level == "warn" and row.todo for row in refused)
    assert len(rows) >= len(CHECKS) - 1, "all but the reservation, which the settings have none of"
    assert main(["preflight", "dev"]) == 1
    printed = capsys.readouterr().out
    # Here there is no AMI by any name, and no bootstrap.
    failed = 1 + len(list(machines(load_settings("dev"))))
    assert "not bootstrapped" in printed and f"{failed} fail" in printed
    assert max(map(len, printed.splitlines())) <= 80
