"""The stand-in's server and the environment around it: loopback, nobody's credentials, hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stand_in import server
from stand_in.environment import KEPT, isolated_environment, scrub_process_environment
from stand_in.hooks import Answer, Call, Hooks, action_of, parameters_of
from stand_in.session import StandIn, StandInFailed, run, stand_in
from tests.deploy.trap import Trap, trap
from tests.stand_in.conftest import REGION, ROOT, Stacks
from tests.stand_in.functions import function, upload

ALLOWED_AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def test_loopback_only(aws: StandIn) -> None:
    assert server.HOST == "127.0.0.1" and aws.base_url.startswith("http://127.0.0.1:")
    pid = int(json.loads((aws.state_dir / "ready.json").read_text())["pid"])
    listening = [one for one in psutil.Process(pid).net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert {one.laddr.ip for one in listening} == {"127.0.0.1"}


def test_nobody_can_ask_for_another_address() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stand_in.server", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--host" not in done.stdout and "--port" in done.stdout


@pytest.fixture
def careless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    """An environment as a developer may have it, all of which leads into a trap that nobody may fall into."""
    with trap() as made:
        for name, value in made.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL_ANYTHING_NEW", made.url)
        monkeypatch.setenv("TORCHLIFT_LEAK", "secret")
        yield made
    assert made.calls == []


def test_the_environment_of_children_is_a_list_of_what_is_kept(careless: Trap, tmp_path: Path) -> None:
    made = isolated_environment(base_url="http://127.0.0.1:9", region=REGION, root=ROOT, home=tmp_path)
    assert careless.url not in made.values() and "secret" not in made.values()
    aws = {name: value for name, value in made.items() if name.startswith("AWS_")}
    files = {"AWS_CONFIG_FILE": str(tmp_path / "aws-config")}
    files["AWS_SHARED_CREDENTIALS_FILE"] = str(tmp_path / "aws-credentials")
    ours = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    assert aws == ALLOWED_AWS | files | ours
    assert not any("proxy" in name.lower() for name in made if name != "NO_PROXY")
    assert {name for name in made if os.environ.get(name) == made[name]} <= set(KEPT) | {"NO_PROXY", "NO_COLOR"} | {
        # Made anew, and the same only by chance.
        "PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "HF_HUB_OFFLINE", "CDK_DISABLE_CLI_TELEMETRY",
        "AWS_EC2_METADATA_DISABLED", "OMP_WAIT_POLICY",
    }  # fmt: skip


def test_the_process_itself_is_scrubbed(careless: Trap) -> None:
    before = dict(os.environ)
    try:
        scrub_process_environment()
        left = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        assert left == {
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        assert not any(name.lower().endswith("_proxy") for name in os.environ)
    finally:
        os.environ.clear()
        os.environ.update(before)


LOOK = """
def handler(event, context):
    import os
    wanted = ("AWS_", "HTTP", "http", "NO_PROXY", "TORCHLIFT", "CDK", "HF_")
    note({name: value for name, value in os.environ.items() if name.startswith(wanted)})
    answer(event)
"""


def test_a_server_started_from_a_careless_shell_reaches_nothing_else(careless: Trap, tmp_path: Path) -> None:
    """Server, its own clients, a function, and a child that is run with `environment`."""
    with stand_in(region=REGION, state_dir=tmp_path / "state", root=ROOT) as aws:
        stacks = Stacks(aws)
        resources = function(upload(stacks, LOOK))
        token = {"Fn::GetAtt": ["Function", "Arn"]}
        resources["C"] = {"Type": "Custom::Look", "Properties": {"ServiceToken": token}}
        assert stacks.create("s", resources) == "CREATE_COMPLETE"
        s3 = aws.client("s3")
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=stacks.name("code"))["Contents"]]
        note = next(key for key in keys if key != "code.zip")
        seen = json.loads(s3.get_object(Bucket=stacks.name("code"), Key=note)["Body"].read())
        child = "import os, json; print(json.dumps(dict(os.environ)))"
        command = [sys.executable, "-c", child]
        done = run(command, environment=aws.environment, cwd=tmp_path, log=tmp_path / "child.log", timeout=30)
        asked = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"
        command = [sys.executable, "-c", asked]
        account = run(command, environment=aws.environment, cwd=tmp_path, log=tmp_path / "sts.log", timeout=60)
        server_process = psutil.Process(int(json.loads((aws.state_dir / "ready.json").read_text())["pid"]))
        own = server_process.environ()
    for place in (seen, json.loads(done.stdout)):
        assert careless.url not in json.dumps(place) and "EXAMPLE" not in json.dumps(place)
        assert "secret" not in json.dumps(place)
        assert place["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:") and "AWS_PROFILE" not in place
    assert account.stdout.strip() == "123456789012"
    assert not any(name.startswith("AWS_") for name in own)


def test_what_it_says_when_it_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(StandInFailed, match=r"did not start[\s\S]*unrecognized arguments"),
        stand_in(region=REGION, state_dir=tmp_path, root=ROOT, program=("-m", "stand_in.server", "--nonsense")),
    ):
        pass


def test_pages(aws: StandIn) -> None:
    assert set(aws.get("/_torchlift/state")) == {"jobs", "endpoints", "fleets", "processes"}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{aws.base_url}/_torchlift/nothing", timeout=10)


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
    with pytest.raises(subprocess.TimeoutExpired):
        run(command, environment={}, cwd=tmp_path, log=tmp_path / "log", timeout=1)
    assert "begun" in (tmp_path / "log").read_text()


def call(**changes: object) -> Call:
    values = {
        "service": "codebuild", "action": "StartBuild", "region": REGION, "method": "POST", "path": "/",
        "headers": {}, "body": b"",
    }  # fmt: skip
    return Call(**{**values, **changes})  # type: ignore[arg-type]


def test_hooks() -> None:
    hooks, seen = Hooks(), []
    hooks.after("codebuild", "StartBuild", lambda one: seen.append(("first", one.status)))
    hooks.after("codebuild", "StartBuild", lambda one: seen.append(("second", one.status)))
    instead = Answer(status=200, body=b"ours")
    hooks.instead("lambda", "Invoke", lambda one: instead)
    hooks.run_after(call(status=200))
    hooks.run_after(call(action="StopBuild"))
    assert seen == [("first", 200), ("second", 200)]
    assert hooks.wants("codebuild") and hooks.wants("lambda") and not hooks.wants("s3")
    found = hooks.replacement("lambda", "Invoke")
    assert found is not None and found(call()) is instead
    assert hooks.replacement("lambda", "ListFunctions") is None


@pytest.mark.parametrize(
    ("service", "method", "path", "headers", "body", "action"),
    [
        ("codebuild", "POST", "/", {"X-Amz-Target": "CodeBuild_20161006.StartBuild"}, b"{}", "StartBuild"),
        ("ec2", "POST", "/", {"Content-Type": "application/x-www-form-urlencoded; x"}, b"Action=RunInstances&A=b",
         "RunInstances"),
        ("sagemaker", "POST", "/endpoints/e/invocations", {}, b"", "InvokeEndpoint"),
        ("lambda", "POST", "/2015-03-31/functions/f/invocations", {}, b"", "Invoke"),
        ("lambda", "GET", "/2015-03-31/functions/f", {}, b"", ""),
        ("s3", "PUT", "/bucket/endpoints/x/invocations", {}, b"Action=No", ""),
    ],
)  # fmt: skip
def test_actions(service: str, method: str, path: str, headers: dict[str, str], body: bytes, action: str) -> None:
    assert action_of(service=service, method=method, path=path, headers=headers, body=body) == action


def test_parameters_of_a_query() -> None:
    assert parameters_of(call(body=b"A=b&C=&D=%20e")) == {"A": "b", "C": "", "D": " e"}


def test_a_failing_call_runs_no_hooks(aws: StandIn) -> None:
    """StartBuild of a project that does not exist is refused, and nothing is started."""
    client = aws.client("codebuild")
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.start_build(projectName="missing")
    assert aws.get("/_torchlift/state")["jobs"] == []
