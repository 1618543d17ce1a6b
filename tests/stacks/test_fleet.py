"""The Inferentia fleet: how it is replaced, what it may do, who reaches it, and what tells that it is unwell."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from settings import REPO_ROOT
from settings.inferentia import INF2_TYPES, cores_of
from stand_in.executor.job_environment import FLEET_MARK, from_user_data
from tests.stacks.synthesis import Resource, Synthesized, listed, statements
from torchlift.fleet_group import FleetSize
from torchlift.fleet_load_balancer import CHECK_SECONDS, CHECKS_UP, DRAIN_SECONDS, IDLE_SECONDS, LONGEST_REQUEST_SECONDS
from torchlift.launch_template import MAX_USER_DATA_BYTES

SECTION: dict[str, object] = {
    "question_answering.model": "hf://distilbert/distilbert-base-cased-distilled-squad@" + "5" * 40,
    "question_answering.weights_mib": 250,
    "question_answering.ami_parameter": "/aws/service/neuron/dlami/base/ubuntu-24.04/latest/image_id",
    "question_answering.null_threshold": "none",
}
CERTIFICATE = "arn:aws:acm:us-west-2:123456789012:certificate/12345678-1234-1234-1234-123456789012"
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:qa-token-AbCdEf"
STACK = "Inferentia"
Make = Callable[..., Synthesized]


@pytest.fixture
def fleet(synthesize: Make) -> Make:
    """Synthesize a deployment with a fleet, and changed settings of it."""

    def make(name: str = "dev", **changes: object) -> Synthesized:
        return synthesize(name, SECTION | {f"question_answering.{key}": value for key, value in changes.items()})

    return make


def group(made: Synthesized) -> Resource:
    (found,) = made.resources("AWS::AutoScaling::AutoScalingGroup", STACK).values()
    return found


def environment(made: Synthesized) -> dict[str, str]:
    """What the hosts are told, tokens as `<…>`."""
    data = made.one("AWS::EC2::LaunchTemplate", STACK)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    return from_user_data(flat(data), mark=FLEET_MARK)


def flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return str(value["Fn::Join"][0]).join(flat(item) for item in value["Fn::Join"][1])
    return "<" + str(next(iter(value.values()))) + ">"


def test_it_depends_on_foundation_only(fleet: Make) -> None:
    assert fleet().dependencies()[STACK] == {"Foundation"}


@pytest.mark.parametrize(("low", "high"), [(1, 2), (2, 8), (3, 4)])
def test_an_update_never_has_fewer_hosts_than_the_settings_say(low: int, high: int, fleet: Make) -> None:
    made = group(fleet(min_instances=low, max_instances=high))
    rolling = made["UpdatePolicy"]["AutoScalingRollingUpdate"]
    # CloudFormation refuses as many in service as the group may have at most: there is room for one more.
    assert rolling["MinInstancesInService"] == low < int(made["Properties"]["MaxSize"])
    assert rolling["MaxBatchSize"] == 1
    assert made["Properties"]["MinSize"] == str(low)
    assert "DesiredCapacity" not in made["Properties"], "it would undo what scaling did with every update"


def test_a_fleet_that_could_not_be_updated_is_refused() -> None:
    with pytest.raises(ValueError, match="2 to 2 hosts"):
        FleetSize(minimum=2, maximum=2, requests_per_instance=1, cpu_target_percent=70, warm_up_seconds=0)


def test_creation_and_updates_wait_for_every_host(fleet: Make) -> None:
    made = group(fleet(min_instances=2, max_instances=3))
    rolling, creation = made["UpdatePolicy"]["AutoScalingRollingUpdate"], made["CreationPolicy"]["ResourceSignal"]
    assert creation["Count"] == 2
    assert rolling["WaitOnResourceSignals"] is True
    assert creation["Timeout"] == rolling["PauseTime"]
    minutes = re.fullmatch(r"PT(\d+)M", rolling["PauseTime"])
    assert minutes is not None and int(minutes[1]) <= 60
    # CloudFormation must not count while something else launches and ends instances.
    assert {"AlarmNotification", "AZRebalance", "ReplaceUnhealthy"} <= set(rolling["SuspendProcesses"])


def test_a_host_gives_up_before_the_stack_does(fleet: Make) -> None:
    made = fleet()
    wait = re.fullmatch(r"PT(\d+)M", group(made)["CreationPolicy"]["ResourceSignal"]["Timeout"])
    told = environment(made)
    assert wait is not None
    assert int(told["TORCHLIFT_DEADLINE_SECONDS"]) + int(told["TORCHLIFT_SETTLE_SECONDS"]) < int(wait[1]) * 60
    assert group(made)["Properties"]["HealthCheckGracePeriod"] == int(told["TORCHLIFT_DEADLINE_SECONDS"])


def test_hosts_signal_the_group_of_their_own_stack(fleet: Make) -> None:
    made = fleet()
    (name,) = made.resources("AWS::AutoScaling::AutoScalingGroup", STACK)
    told = environment(made)
    assert (told["TORCHLIFT_STACK"], told["TORCHLIFT_RESOURCE"]) == ("Torchlift-dev-Inferentia", name)
    (allowed,) = [one for _, one in statements(made.templates[STACK]) if "SignalResource" in str(one["Action"])]
    assert allowed["Resource"] == {"Ref": "AWS::StackId"}


def test_a_change_is_another_template_and_a_rollback_finds_the_old_one(fleet: Make) -> None:
    before, after = fleet(), fleet(queue_rows=512)
    old, new = (set(made.resources("AWS::EC2::LaunchTemplate", STACK)) for made in (before, after))
    assert old.isdisjoint(new)
    for made, names in ((before, old), (after, new)):
        assert group(made)["Properties"]["LaunchTemplate"] == {"LaunchTemplateId": {"Ref": min(names)}, "Version": "1"}
    same = fleet(max_instances=5, requests_per_instance=77, latency_p99_ms_alarm=123)
    assert set(same.resources("AWS::EC2::LaunchTemplate", STACK)) == old, "sizes replace no host"


@pytest.mark.parametrize("kind", INF2_TYPES)
@pytest.mark.parametrize("wanted", ["all", 1])
def test_cores_of_every_type(kind: str, wanted: int | str, fleet: Make) -> None:
    told = environment(fleet(instance_type=kind, num_cores=wanted))
    assert told["TORCHLIFT_CORES"] == str(cores_of(kind) if wanted == "all" else wanted)
    assert told["TORCHLIFT_CORES_PER_DEVICE"] == "2"


def test_user_data_fits(fleet: Make) -> None:
    data = fleet(token_secret_arn=SECRET).one("AWS::EC2::LaunchTemplate", STACK)["LaunchTemplateData"]["UserData"]
    text = flat(data["Fn::Base64"])
    assert len(text.encode()) < MAX_USER_DATA_BYTES - 2048
    assert base64.b64encode(text.encode())
    assert "@FLEET_ENVIRONMENT@" not in text


def test_servers_get_the_settings(fleet: Make) -> None:
    told = environment(fleet(queue_rows=300, batch_wait_ms=3.5, timeout_ms=9000))
    assert (told["TORCHLIFT_QUEUE_ROWS"], told["TORCHLIFT_BATCH_WAIT_MS"]) == ("300", "3.5")
    assert told["TORCHLIFT_TIMEOUT_MS"] == "9000"
    assert "TORCHLIFT_NUM_MODELS_PER_SERVER" not in told, "the servers refuse it beside a list of models"
    # Neither proxy may give a request up before the server does.
    assert int(told["TORCHLIFT_MAX_TIMEOUT_MS"]) / 1000 < LONGEST_REQUEST_SECONDS < IDLE_SECONDS <= DRAIN_SECONDS
    assert int(told["TORCHLIFT_SETTLE_SECONDS"]) > CHECKS_UP * CHECK_SECONDS


def test_the_load_balancer_is_internal_and_hosts_are_reached_through_it_only(fleet: Make) -> None:
    made = fleet()
    balancer = made.one("AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert balancer["Scheme"] == "internal"
    assert len(balancer["Subnets"]) >= 2
    attributes = {item["Key"]: item["Value"] for item in balancer["LoadBalancerAttributes"]}
    assert attributes["routing.http.drop_invalid_header_fields.enabled"] == "true"
    groups = made.resources("AWS::EC2::SecurityGroup", STACK)
    (inward,) = [rule for item in groups.values() for rule in item["Properties"].get("SecurityGroupIngress", ())]
    vpc = made.one("AWS::EC2::VPC")["CidrBlock"]
    assert (inward["CidrIp"], inward["FromPort"], inward["ToPort"]) == (vpc, 80, 80)
    (rule,) = [item["Properties"] for item in made.resources("AWS::EC2::SecurityGroupIngress", STACK).values()]
    (ours,) = balancer["SecurityGroups"]
    assert (rule["SourceSecurityGroupId"], rule["FromPort"], rule["ToPort"]) == (ours, 8080, 8080)


def test_tls_with_a_certificate(fleet: Make) -> None:
    plain, secure = (fleet(**more).one("AWS::ElasticLoadBalancingV2::Listener") for more in ({}, {
        "certificate_arn": CERTIFICATE
    }))  # fmt: skip
    assert (plain["Port"], plain["Protocol"]) == (80, "HTTP")
    assert (secure["Port"], secure["Protocol"]) == (443, "HTTPS")
    assert secure["Certificates"] == [{"CertificateArn": CERTIFICATE}]
    assert "TLS13" in secure["SslPolicy"]
    url = fleet(certificate_arn=CERTIFICATE).templates[STACK]["Outputs"]["QuestionAnsweringUrl"]["Value"]
    assert flat(url).startswith("https://")


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_a_first_deploy_that_fails_can_be_taken_back(name: str, fleet: Make) -> None:
    """CloudFormation deletes what it made, and what refuses that leaves the stack in ROLLBACK_FAILED."""
    made = fleet(name, min_instances=2, max_instances=3)
    text = json.dumps(made.templates[STACK]["Resources"]).lower()
    # Load balancers say it in an attribute, most others in a property.
    assert '{"key": "deletion_protection.enabled", "value": "false"}' in text
    for refuses in (
        r'"deletion_protection.enabled", "value": "true"', r'"deletionprotection(enabled)?": true',
        r'"disableapitermination": true', r'"terminationprotection', r'"newinstancesprotectedfromscalein": true',
    ):  # fmt: skip
        assert not re.search(refuses, text), refuses


def test_targets_are_asked_whether_a_core_is_ready(fleet: Make) -> None:
    made = fleet().one("AWS::ElasticLoadBalancingV2::TargetGroup")
    assert (made["HealthCheckPath"], made["Port"], made["TargetType"]) == ("/readyz", 8080, "instance")
    attributes = {item["Key"]: item["Value"] for item in made["TargetGroupAttributes"]}
    assert attributes["load_balancing.algorithm.type"] == "least_outstanding_requests"
    assert group(fleet())["Properties"]["HealthCheckType"] == "ELB"


def test_scaling_follows_the_settings(fleet: Make) -> None:
    made = fleet(requests_per_instance=321, cpu_utilization_target_percent=55, warm_up_seconds=99)
    policies = [item["Properties"] for item in made.resources("AWS::AutoScaling::ScalingPolicy").values()]
    targets = {
        tracking["PredefinedMetricSpecification"]["PredefinedMetricType"]: tracking["TargetValue"]
        for tracking in (item["TargetTrackingConfiguration"] for item in policies)
    }
    assert targets == {"ALBRequestCountPerTarget": 321, "ASGAverageCPUUtilization": 55}
    assert {item["EstimatedInstanceWarmup"] for item in policies} == {99}
    assert group(made)["Properties"]["DefaultInstanceWarmup"] == 99


def test_hosts_read_what_they_serve_and_nothing_else(fleet: Make) -> None:
    made = fleet()
    role = [one for name, one in statements(made.templates[STACK]) if name.startswith("FleetAccess")]
    objects = [item for one in role if "s3:GetObject" in listed(one["Action"]) for item in listed(one["Resource"])]
    texts = [flat(item) for item in objects]
    assert len(texts) == 3
    for part in ("fleet/question-answering/", "neuron/question-answering/*", ".zip"):
        assert [text for text in texts if part in text], part
    actions = {action for one in role for action in listed(one["Action"])}
    assert not {
        action
        for action in actions
        if re.search(r"Put(?!LogEvents)|Delete(?!Message)|Create(?!LogStream|.*Channel)", action)
    }
    assert "secretsmanager:GetSecretValue" not in actions
    secret = [one for _, one in statements(fleet(token_secret_arn=SECRET).templates[STACK]) if "secrets" in str(one)]
    assert [one["Resource"] for one in secret] == [SECRET]


def test_an_update_takes_nothing_from_the_hosts_that_it_has_not_replaced_yet(fleet: Make) -> None:
    """Their role is the new hosts' too, and changes before the first of them goes."""

    def allowed(**changes: object) -> list[dict[str, Any]]:
        made = statements(fleet(**changes).templates[STACK])
        return [one for name, one in made if name.startswith("FleetAccess")]

    before = allowed()
    for changes in (
        {"num_models_per_server": 2}, {"lengths": [64, 384]}, {"dtype": "bfloat16"}, {"queue_rows": 512},
    ):  # fmt: skip
        assert allowed(**changes) == before, changes


def test_the_trace_covers_what_it_computes_and_nothing_else(fleet: Make) -> None:
    def job(name: str, **changes: object) -> dict[str, Any]:
        starts = fleet(**changes).resources("Custom::StartJob", STACK).values()
        environments: list[dict[str, Any]] = [item["Properties"]["Environment"] for item in starts]
        (found,) = [one for one in environments if one["TORCHLIFT_JOB"] == name]
        return found

    trace, models = "question-answering-trace", "question-answering-models"
    before = job(trace)["TORCHLIFT_HASH"]
    for changes in ({"dtype": "bfloat16"}, {"lengths": [64, 384]}, {"compiler_args": "-O1"}, {"stride": 64}):
        assert job(trace, **changes)["TORCHLIFT_HASH"] != before, changes
    assert job(trace, num_models_per_server=2, queue_rows=512)["TORCHLIFT_HASH"] == before
    words = shlex.split(job(trace, compiler_args="--auto-cast none")["TORCHLIFT_COMMAND"])
    assert "--compiler-args=--auto-cast none" in words
    assert "--null-threshold=none" in words and "--neuron-sdk=2.31.1" in words
    # Of the number of models another list comes, and the operator's changes of the old one stay.
    assert job(models)["TORCHLIFT_HASH"] != job(models, num_models_per_server=2)["TORCHLIFT_HASH"]
    listed_models = json.loads(shlex.split(job(models, num_models_per_server=2)["TORCHLIFT_COMMAND"])[2])["models"]
    assert [one["name"] for one in listed_models] == ["model_0", "model_1"]
    assert {one["source"] for one in listed_models} == {f"/opt/torchlift/models/{before}"}
    assert job("question-answering-image")["TORCHLIFT_TRACE_HASH"] == before


def test_hosts_wait_for_images_and_models(fleet: Make) -> None:
    awaited = {
        re.sub(r"[0-9a-f]{24}Signal.*", "", name) for name in group(fleet())["DependsOn"] if "SignalDone" in name
    }
    assert awaited == {"Models", "ServingImage", "NginxImage", "MonitorImage"}
    assert [name for name in group(fleet())["DependsOn"] if "Listener" in name], "else no host is ever healthy"


def test_addresses_move_when_the_fleet_answers(fleet: Make) -> None:
    made = fleet()
    (name,) = made.resources("AWS::AutoScaling::AutoScalingGroup", STACK)
    parameters = made.resources("AWS::SSM::Parameter", STACK).values()
    assert {item["Properties"]["Name"].rpartition("/")[2] for item in parameters} == {"url", "models"}
    assert all(name in item["DependsOn"] for item in parameters)


def test_every_alarm_reaches_somebody_and_the_runbook_knows_it(fleet: Make) -> None:
    text = (REPO_ROOT / "docs" / "runbooks.md").read_text().partition("\n# The question-answering fleet\n")[2]
    text = text.partition("\n# ")[0]
    sections = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", text, re.MULTILINE)}
    pointed = set()
    for alarm in (item["Properties"] for item in fleet().resources("AWS::CloudWatch::Alarm", STACK).values()):
        assert "Alarms" in str(alarm["AlarmActions"]) and alarm["OKActions"] == alarm["AlarmActions"]
        found = re.search(r"See docs/runbooks\.md#([a-z-]+)$", alarm["AlarmDescription"])
        assert found
        pointed.add(found[1])
        # Silence of what is always sent is a fault, silence of all else is not.
        always = found[1] in ("healthy-hosts", "monitor-silent")
        assert alarm["TreatMissingData"] == ("breaching" if always else "notBreaching")
    assert pointed == sections


def test_alarms_and_dashboard_watch_what_the_monitor_sends(fleet: Make) -> None:
    from model_code.neuron_monitor.__main__ import NAMESPACE, UNITS

    template = fleet().templates[STACK]
    text = json.dumps(template)
    named = set(re.findall(rf'"{NAMESPACE}\\+",\\+"(\w+)', text)) | set(re.findall(r'MetricName=\\+"(\w+)', text))
    for alarm in (item["Properties"] for item in fleet().resources("AWS::CloudWatch::Alarm", STACK).values()):
        if alarm.get("Namespace") == NAMESPACE:
            named.add(alarm["MetricName"])
            assert alarm["Dimensions"] == [{"Name": "Deployment", "Value": "dev"}]
    assert {"CoreUtilization", "DeviceMemory", "ServerUp", "QueueRows", "BatchRows", "InferenceMilliseconds"} <= named
    assert named <= set(UNITS)
