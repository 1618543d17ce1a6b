"""One instance of the question-answering fleet: what its boot does, with processes in the place of containers."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from stand_in.executor.endpoint_servers import CannotDeploy, require_image
from stand_in.executor.fleet_host import Host
from stand_in.executor.jobs import JobRun, SourceMissing
from stand_in.executor.site import Site

log = logging.getLogger(__name__)
MOST_CORES = 4
"""A machine that stands for an Inf2 instance has few processors."""
IMAGES = ("TORCHLIFT_SERVING_IMAGE", "TORCHLIFT_NGINX_IMAGE", "TORCHLIFT_MONITOR_IMAGE")
TRACED = "neuron/question-answering/"
CHECK_SECONDS = 240
_FETCHING = threading.Lock()  # instances share the image's files


class BootFailed(Exception):
    """A step of the boot failed; the message says which and why."""


class FleetInstance:
    """`live()` boots and signals; then the host runs until `stop()`."""

    def __init__(self, *, site: Site, region: str, instance_id: str, environment: Mapping[str, str], role: str) -> None:
        self._site = site
        self._region = region
        self._environment = environment
        self._role = role
        self.id = instance_id
        self.host: Host | None = None
        self.in_service = False
        self._stopped = threading.Event()
        self._job = JobRun(
            site=site,
            region=region,
            kind="instance",
            environment={**environment, "TORCHLIFT_JOB": "question-answering-fleet"},
            number=instance_id,
            role=role,
        )

    @property
    def port(self) -> int | None:
        """Of loopback, where its nginx is."""
        return self.host.port if self.host is not None else None

    def as_json(self) -> dict[str, Any]:
        """The entry of `/_torchlift/state`."""
        host = self.host
        return {
            "instance": self.id,
            "state": "in service" if self.in_service else self._job.state.state,
            "url": f"http://127.0.0.1:{host.port}" if host else None,
            "proxy": host.proxy if host else "",
            "cores": host.cores() if host else [],
            "log": str(host.log) if host else "",
        }

    def live(self) -> None:
        """Boot, and tell the stack how it went."""
        try:
            self._boot()
        except (BootFailed, CannotDeploy, SourceMissing) as error:
            self._failed(str(error))
        except Exception as error:  # the stack must hear of it
            log.exception("instance %s", self.id)
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if not self._stopped.is_set():
                self._job.state.end("succeeded")
                self.in_service = True
                self._tell(f"{self._environment['TORCHLIFT_CORES']} cores answer")
                self._signal("SUCCESS")

    def leave(self) -> None:
        """No more requests."""
        self.in_service = False

    def stop(self) -> None:
        """The instance is gone: end its processes."""
        self._stopped.set()
        self.leave()
        if self.host is not None:
            self.host.stop()
        self._job.stop()
        if self._job.state.state == "running":
            self._job.state.end("stopped", "the instance was terminated")
        self._job.clean()

    def _failed(self, reason: str) -> None:
        if self._stopped.is_set():
            return
        log.error("instance %s: %s", self.id, reason)
        self._job.note(reason)
        self._job.state.end("failed", reason)
        self._tell(f"FAILURE: {reason}")
        if self.host is not None:
            self.host.stop()
        self._signal("FAILURE")

    def _boot(self) -> None:
        cores = int(self._environment["TORCHLIFT_CORES"])
        if cores > MOST_CORES:
            raise BootFailed(f"{cores} cores are more than this machine can stand for; set num_cores to {MOST_CORES}")
        for name in IMAGES:
            require_image(self._site, self._environment[name], role=self._role)
        self._job.fetch_source()
        self._job.folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **{name: value for name, value in self._environment.items() if name.startswith("TORCHLIFT_")},
            "TORCHLIFT_MODEL_ROOT": str(self._image_files()),
            "TORCHLIFT_POLL_SECONDS": "1",
        }
        token = self._token()
        if token:
            environment["TORCHLIFT_TOKEN_FILE"] = str(token)
        if self._stopped.is_set():
            return
        self.host = Host(
            site=self._site, name=f"fleet-{self.id}", bundle=self._job.home, folder=self._job.folder / "host",
            access=self._site.environment(self._region, role=self._role), environment=environment,
        )  # fmt: skip
        self._check(self.host, cores, token)

    def _image_files(self) -> Path:
        """The folder in the place of the serving image's files: the traced models that models.json finds there.

        The image job puts them there from the trace's result; without images they come from the same place.
        """
        image = self._environment["TORCHLIFT_SERVING_IMAGE"].rpartition(":")[2]
        root = self._site.state_dir / "images" / image
        # Not the host's doing: what is in an image needs no permission any more.
        s3 = self._site.own_client("s3", self._region)
        bucket, _, key = self._environment["TORCHLIFT_MODELS"].removeprefix("s3://").partition("/")
        models = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())["models"]
        with _FETCHING:
            for source in {str(model["source"]) for model in models if str(model["source"]).startswith("/")}:
                folder = root / source.lstrip("/")
                if not folder.is_dir():
                    _fetch(s3, bucket, f"{TRACED}{folder.name}/", folder)
        return root

    def _token(self) -> Path | None:
        secret = self._environment.get("TORCHLIFT_TOKEN_SECRET")
        if not secret:
            return None
        found = self._client("secretsmanager").get_secret_value(SecretId=secret)
        path = self._job.folder / "token"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(found["SecretString"])
        return path

    def _check(self, host: Host, cores: int, token: Path | None) -> None:
        """With the host's own program. A server that ends meanwhile ends the boot."""
        command = [
            sys.executable, str(self._job.home / "hosts/inferentia/check.py"), "--address", f"127.0.0.1:{host.port}",
            "--cores", str(cores), "--seconds", str(CHECK_SECONDS), *(["--token-file", str(token)] if token else []),
        ]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as asking:
            while asking.poll() is None and not self._stopped.wait(0.2):
                if any(host.restarts) or host.ended():
                    asking.kill()
                    raise BootFailed(f"a server ended: {self._end_of(host.log)}")
            if self._stopped.is_set():
                asking.kill()
                return
            _, wrong = asking.communicate()
        if asking.returncode != 0:
            raise BootFailed(f"not every core answers: {' '.join(wrong.split())[:800]}")

    @staticmethod
    def _end_of(path: Path) -> str:
        return " ".join(path.read_text(errors="replace").split("\n")[-12:])[-800:]

    def _client(self, service: str) -> Any:
        return self._site.client(service, self._region, role=self._role)

    def _tell(self, line: str) -> None:
        """As the host does: a line for people, and for the alarm on the fleet's log."""
        logs = self._client("logs")
        place = {"logGroupName": self._environment["TORCHLIFT_LOG_GROUP"], "logStreamName": f"{self.id}/boot"}
        event = {"timestamp": int(time.time() * 1000), "message": f"torchlift: {line}"[:2000]}
        try:
            logs.create_log_stream(**place)
            logs.put_log_events(**place, logEvents=[event])
        except ClientError as error:
            log.warning("instance %s: its log takes no line: %s", self.id, error)

    def _signal(self, status: str) -> None:
        """As the host does: a stack that waits for nothing refuses, which is no failure."""
        try:
            self._client("cloudformation").signal_resource(
                StackName=self._environment["TORCHLIFT_STACK"],
                LogicalResourceId=self._environment["TORCHLIFT_RESOURCE"],
                UniqueId=self.id,
                Status=status,
            )
        except Exception as error:
            log.warning("instance %s: the stack takes no signal: %s", self.id, error)


def _fetch(s3: Any, bucket: str, prefix: str, folder: Path) -> None:
    """Copy a result. Raises BootFailed when it is none."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
    if f"{prefix}manifest.json" not in keys:
        raise BootFailed(f"the serving image would lack its model: there is no s3://{bucket}/{prefix}manifest.json")
    partial = folder.with_suffix(".partial")
    for key in keys:
        path = partial / key.removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, key, str(path))
    partial.rename(folder)
