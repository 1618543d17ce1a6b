"""The stand-in's application with moto, our hooks and the executor, in this process on a loopback port."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from stand_in import hooks_jobs
from stand_in.cloudformation.mailbox import Mailbox
from stand_in.executor import direct, endpoint_servers
from stand_in.executor.executor import Executor
from stand_in.executor.processes import spawn
from stand_in.executor.servers import Container, ModelServer, free_ports
from stand_in.executor.site import Site
from stand_in.hooks import Hooks
from stand_in.server import Application
from tests.support import waiting

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).with_name("fake_server.py")
REGION = "eu-west-1"
ROLE = "arn:aws:iam::123456789012:role/anything"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
)
RECORDER = """
import json, os, time, urllib.request
def handler(event, context):
    url = f"{os.environ['AWS_ENDPOINT_URL']}/records/{time.time_ns():020d}"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(event).encode(), method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=10)  # boto3 would take a second to load
"""


class NoStacks:
    """Stands where CloudFormation would be: only its mailbox is used."""

    def __init__(self, base_url: str) -> None:
        self.mailbox = Mailbox(base_url)


@dataclass(frozen=True, kw_only=True)
class World:
    """A running stand-in and shorthands for what tests do with it."""

    base_url: str
    executor: Executor
    mailbox: Mailbox

    def client(self, service: str) -> Any:
        return self.executor.site.own_client(service, REGION)

    def put(self, bucket: str, key: str, body: bytes) -> str:
        client = self.client("s3")
        if bucket not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        client.put_object(Bucket=bucket, Key=key, Body=body)
        return f"s3://{bucket}/{key}"

    def function(self, name: str, code: str, *, log_group: bool = True, **options: Any) -> str:
        """Make a function with `index.handler`; returns its ARN."""
        if log_group:
            self.client("logs").create_log_group(logGroupName=f"/functions/{name}")
        made = self.client("lambda").create_function(
            FunctionName=name, Runtime="python3.11", Role=ROLE, Handler="index.handler",
            Code={"ZipFile": zip_of({"index.py": code})},
            LoggingConfig={"LogGroup": f"/functions/{name}"}, **{"Timeout": 20, **options},
        )  # fmt: skip
        return str(made["FunctionArn"])

    def record_events(self, name: str, pattern: dict[str, Any]) -> None:
        """Deliver the events that match to a real function that writes them to S3."""
        self.put("records", "first", b"{}")
        self.client("s3").delete_object(Bucket="records", Key="first")
        function = self.function(f"record-{name}", RECORDER)
        rule = self.client("events").put_rule(Name=name, EventPattern=json.dumps(pattern))["RuleArn"]
        self.client("events").put_targets(Rule=name, Targets=[{"Id": "f", "Arn": function}])
        self.client("lambda").add_permission(
            FunctionName=function, StatementId="e", Action="lambda:InvokeFunction", Principal="events.amazonaws.com",
            SourceArn=rule,
        )  # fmt: skip

    def events(self) -> list[dict[str, Any]]:
        """What was recorded, oldest first."""
        client = self.client("s3")
        entries = client.list_objects_v2(Bucket="records").get("Contents", [])
        keys = sorted(entry["Key"] for entry in entries)
        return [json.loads(client.get_object(Bucket="records", Key=key)["Body"].read()) for key in keys]

    def job(self, name: str) -> dict[str, Any]:
        """The latest run of a job."""
        found: list[dict[str, Any]] = [one for one in self.executor.state()["jobs"] if one["job"] == name]
        return found[-1]


def zip_of(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


def eventually(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait until `condition` gives something true, and return that."""
    return waiting.eventually(condition, seconds)


def load(path: Path) -> ModuleType:
    """A module by its file: test folders are no packages."""
    spec = importlib.util.spec_from_file_location(f"torchlift_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def listening_addresses(root: psutil.Process) -> dict[int, list[str]]:
    """Where the processes of a tree listen for TCP, by process id."""
    found = {}
    for one in [root, *root.children(recursive=True)]:
        sockets = [each for each in one.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        found[one.pid] = [f"{each.laddr.ip}:{each.laddr.port}" for each in sockets]
    return found


@contextmanager
def running(folder: Path) -> Iterator[World]:
    """A stand-in with its files in `folder`: the only one while it runs, since moto's services are the process's."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MOTO_LAMBDA_USE_DOCKER", "false")
        # Stacks are not what is tested here, and their providers need not load.
        monkeypatch.setitem(sys.modules, "stand_in.cloudformation.protocol", ModuleType("protocol"))
        monkeypatch.setattr("stand_in.lambda_runtime.RETRY_PAUSE_S", 0.1)
        monkeypatch.setattr("werkzeug.serving.WSGIRequestHandler.log_request", lambda *_: None)
        server = make_server("127.0.0.1", 0, app=lambda *_: [], threaded=True)
        base_url = f"http://127.0.0.1:{server.server_port}"
        executor = Executor(base_url=base_url, state_dir=folder / "state", repo_root=ROOT)
        hooks, stacks = Hooks(), NoStacks(base_url)
        hooks_jobs.install(hooks, executor)
        moto = executor.site.locked(DomainDispatcherApplication(create_backend_app))
        application = Application(moto=moto, cloudformation=stacks, hooks=hooks)
        application.page("/_torchlift/state", lambda _: executor.state())
        server.app = application
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        reset = urllib.request.Request(f"{base_url}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset, timeout=20).close()
        world = World(base_url=base_url, executor=executor, mailbox=stacks.mailbox)
        world.client("iam").create_role(RoleName="anything", AssumeRolePolicyDocument=TRUST)
        try:
            yield world
        finally:
            executor.close()
            server.shutdown()
            server.server_close()
        assert executor.state()["processes"] == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path) as world:
        yield world


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes our small server the program of `fake-serving`; the file that lets it answer."""
    folder = tmp_path / "fake"
    folder.mkdir()

    def start(site: Site, *, region: str, endpoint: str, container: Container) -> ModelServer:
        port = free_ports(1)[0]
        command = [sys.executable, str(FAKE), str(port), container.environment["MODE"]]
        child = spawn(command, env={}, cwd=folder, log=site.log_path(f"endpoint-{endpoint}"))
        return ModelServer(child=child, program="Fake", version="1", port=port, container=container)

    line = direct.DirectServer(program="Fake", repositories=("fake-serving",), probe=b"probe")
    monkeypatch.setattr(direct, "SERVERS", (line, *direct.SERVERS))
    monkeypatch.setitem(endpoint_servers.PROGRAMS, "Fake", endpoint_servers.Program(start=start))
    (folder / "ready").touch()
    return folder / "ready"


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Adds a line to the table of direct mode: `job("name", "shell command")`."""

    def add(name: str, command: str) -> str:
        monkeypatch.setitem(direct.JOBS, name, direct.DirectJob(command=("bash", "-c", command)))
        return name

    return add
