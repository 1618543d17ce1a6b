"""The server as `make demo` starts it: on loopback only, and gone with everything when it is killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from stand_in.session import stand_in
from tests.executor.conftest import REGION, ROOT, TRUST, eventually, listening_addresses, zip_of

ROLE = "arn:aws:iam::123456789012:role/r"
JOB = "sleep 61 &\nsetsid sleep 62 &\npython3 -m http.server --bind 127.0.0.1 0 &\nsleep 60\n"


def start_build(client: Any) -> None:
    """A build of a job of the table, whose bundle brings a script of its own, which its role may read."""
    iam, s3, codebuild = client("iam"), client("s3"), client("codebuild")
    reads = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bundles/source.zip"}
    document = {"Version": "2012-10-17", "Statement": [reads]}
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)
    iam.put_role_policy(RoleName="r", PolicyName="reads", PolicyDocument=json.dumps(document))
    s3.create_bucket(Bucket="bundles", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="bundles", Key="source.zip", Body=zip_of({"scripts/run_job.sh": JOB}))
    codebuild.create_project(
        name="project", source={"type": "S3", "location": "bundles/source.zip"}, artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL",
            "environmentVariables": [{"name": "TORCHLIFT_JOB", "value": "hub-mirror"}],
        },
        serviceRole=ROLE,
    )  # fmt: skip
    codebuild.start_build(projectName="project")


def start_function(client: Any) -> None:
    """A function that does not end, invoked by a thread of ours."""
    client("logs").create_log_group(logGroupName="/aws/lambda/f")
    code = "import time\ndef handler(event, context):\n    time.sleep(60)\n"
    client("lambda").create_function(
        FunctionName="f", Runtime="python3.11", Role=ROLE, Handler="index.handler", Timeout=70,
        Code={"ZipFile": zip_of({"index.py": code})},
    )  # fmt: skip
    client("lambda").invoke(FunctionName="f", Payload=b"{}", InvocationType="Event")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_listens_elsewhere_and_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    with stand_in(region=REGION, state_dir=tmp_path / "state", root=ROOT) as running:
        start_build(running.client)
        start_function(running.client)
        eventually(lambda: len(running.get("/_torchlift/state")["processes"]) == 2)
        server = psutil.Process(_server(tmp_path))
        # The build's shell, three of its children and the function, each of the two with its supervisor.
        eventually(lambda: len(server.children(recursive=True)) >= 8)
        tree = [server, *server.children(recursive=True)]
        eventually(lambda: len(_addresses(server)) == 2)
        assert [one for one in _addresses(server) if not one.startswith("127.0.0.1:")] == []
        server.send_signal(number)
        _, alive = psutil.wait_procs(tree, timeout=15)
        assert alive == []


def _server(folder: Path) -> int:
    return int(json.loads((folder / "state" / "ready.json").read_text())["pid"])


def _addresses(server: psutil.Process) -> list[str]:
    return [address for found in listening_addresses(server).values() for address in found]
