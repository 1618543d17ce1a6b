"""The job scripts under the real bash and the real AWS CLI, with moto behind them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.aws import ACCOUNT, REGION, aws_environment, moto_server
from tests.support.receiver import Receiver, receiving

REPO_ROOT = Path(__file__).resolve().parents[2]
RESULT_PREFIX = "weights/test/0123456789abcdef/"
"""The prefix of the job's result."""

MISTAKES = re.compile(r"unbound variable|command not found|syntax error|bad substitution|integer expression expected")
"""What bash says of a script that is wrong."""


def require_sound(said: str) -> None:
    """Raise AssertionError for a mistake in a script, whatever became of its run: a failure may be overlooked there."""
    assert not MISTAKES.search(said), said


@dataclass
class Workbench:
    """One test's bucket, folders and environment."""

    endpoint: str
    folder: Path
    bucket: str
    environment: dict[str, str]
    bin: Path = field(init=False)

    def __post_init__(self) -> None:
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        self.environment["PATH"] = f"{self.bin}{os.pathsep}{self.environment['PATH']}"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def client(self, service: str) -> Any:
        client: Any = boto3.client  # its typed overloads want a literal name
        return client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the repository under bash."""
        done = subprocess.run(
            ["bash", str(REPO_ROOT / script), *arguments],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        require_sound(done.stderr)
        return done

    def put(self, key: str, body: bytes | str) -> None:
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)

    def keys(self, prefix: str = "") -> list[str]:
        page = self.client("s3").list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for item in page.get("Contents", [])]

    def empty(self) -> None:
        """Delete everything in the bucket."""
        left = self.keys()
        for key in left:
            self.client("s3").delete_object(Bucket=self.bucket, Key=key)

    def read(self, key: str) -> bytes:
        body: bytes = self.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def is_published(self) -> bool:
        """Whether there is a result: its manifest is written last."""
        return f"{RESULT_PREFIX}manifest.json" in self.keys(RESULT_PREFIX)

    def published(self) -> dict[str, str]:
        """The files of the result, if it is one; none otherwise."""
        if not self.is_published():
            return {}
        keys = [key for key in self.keys(RESULT_PREFIX) if not key.endswith("manifest.json")]
        return {key.removeprefix(RESULT_PREFIX): self.read(key).decode() for key in keys}

    def manifest(self, prefix: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.read(f"{prefix}manifest.json"))
        return document

    def program(self, name: str, text: str) -> None:
        """Put a program first on the scripts' PATH; ``$REAL`` is the one that it hides."""
        path = self.bin / name
        real = shutil.which(name, path=os.environ["PATH"]) or ""
        path.write_text(f"#!/bin/bash\nREAL={real}\n{text}\n")
        path.chmod(0o755)


class Quick(Workbench):
    """A bench whose `aws` is folder_store.py: for sweeps, which call it hundreds of times."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.store = self.folder / "store"
        self.program(
            "aws", f'exec {sys.executable} -SE {Path(__file__).with_name("folder_store.py")} {self.store} "$@"'
        )
        (self.store / self.bucket).mkdir(parents=True)

    def put(self, key: str, body: bytes | str) -> None:
        path = self.store / self.bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else body.encode())

    def keys(self, prefix: str = "") -> list[str]:
        root = self.store / self.bucket
        found = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        return sorted(key for key in found if key.startswith(prefix))

    def read(self, key: str) -> bytes:
        return (self.store / self.bucket / key).read_bytes()

    def empty(self) -> None:
        shutil.rmtree(self.store)
        (self.store / self.bucket).mkdir(parents=True)


def script_environment(folder: Path, bucket: str, endpoint: str) -> dict[str, str]:
    """What a job's scripts find set."""
    return {
        **aws_environment(endpoint),
        "TORCHLIFT_JOB": "test-job",
        "TORCHLIFT_HASH": "0123456789abcdef",
        "TORCHLIFT_DEPLOYMENT": "test",
        "TORCHLIFT_RESULT": f"s3://{bucket}/{RESULT_PREFIX}",
        "TORCHLIFT_INPUTS": "",
        "TORCHLIFT_HOME": str(REPO_ROOT),
        "TORCHLIFT_WORK": str(folder / "work"),
    }


@pytest.fixture
def quick(tmp_path: Path) -> Quick:
    # Nothing answers there.
    environment = script_environment(tmp_path, "bucket", "http://127.0.0.1:1")
    return Quick(endpoint="", folder=tmp_path, bucket="bucket", environment=environment)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def bench(endpoint: str, tmp_path: Path) -> Workbench:
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    environment = script_environment(tmp_path, bucket, endpoint)
    workbench = Workbench(endpoint=endpoint, folder=tmp_path, bucket=bucket, environment=environment)
    workbench.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    return workbench


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def repository(bench: Workbench) -> str:
    """An ECR repository; the value is its URI."""
    name = f"repository-{uuid.uuid4().hex[:8]}"
    bench.client("ecr").create_repository(repositoryName=name, imageTagMutability="IMMUTABLE")
    return f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{name}"
