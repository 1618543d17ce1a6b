"""A multi-model endpoint: the real Triton, and what SageMaker does between InvokeEndpoint and the container.

Imitated: archives come from S3 at their first use, are unpacked, loaded and kept, in memory and on the storage volume
(`model_cache`), so that an archive which is deleted or replaced is still served as it was. Real: Triton's answers, the
models, every byte in between. Different: one server stands for all instances of a variant, its storage volume is never
full, and its memory is full only when a file says so, since the models here are small: `memory_file` holds how many
models fit, and beyond them a load is answered with 507 in Triton's place.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from model_code.archive import ArchiveError, unpack
from stand_in.executor import endpoint_metrics
from stand_in.executor.model_cache import FULL, ModelCache, NotLoaded, Record, name_of
from stand_in.executor.servers import INVOCATION_SECONDS, Answer, Container, ModelServer, Refused
from stand_in.executor.site import Site
from stand_in.executor.triton import TARGET, Triton


class MultiModel(ModelServer):
    """Answers invocations that name a model; `stop()` also removes the models' folder."""

    def __init__(
        self, site: Site, *, region: str, endpoint: str, container: Container, triton: Triton, work: Path
    ) -> None:
        super().__init__(child=triton.child, program=triton.program, version="", port=triton.port, container=container)
        self._endpoint = endpoint
        self._triton = triton
        self._work = work

        def record(name: str, value: float) -> None:
            endpoint_metrics.record_models(
                site, region=region, endpoint=endpoint, variant=container.variant, name=name, value=value
            )

        self.models = ModelCache(
            container=_Memory(triton, memory_file(site, endpoint)),
            store=_Volume(site, region=region, container=container, root=work / "models", record=record),
            record=record,
            keep=container.cached,
        )

    def post(self, body: bytes, headers: Mapping[str, str], *, seconds: float = INVOCATION_SECONDS) -> Answer:
        """One invocation of the model that the headers name. Raises Refused, OSError and HTTPException."""
        target = next((value for key, value in headers.items() if key.lower() == TARGET.lower()), "")
        if not target:
            raise Refused(f"Endpoint {self._endpoint} is a multi-model endpoint and requires a target model header.")
        others = {key: value for key, value in headers.items() if key.lower() != TARGET.lower()}
        deadline = time.monotonic() + seconds
        try:
            with self.models.held(target, seconds=seconds) as name:
                while True:
                    left = max(1.0, deadline - time.monotonic())
                    answer = self._triton.invoke(name, body, others, target=target, seconds=left)
                    if answer.status != FULL or not self.models.make_room(target):
                        return answer
        except NotLoaded as refused:
            return refused.answer

    def wait_until_ready(
        self, probe: bytes, *, seconds: float, hopeless: tuple[str, int] | None, cancelled: threading.Event
    ) -> None:
        """Block until /ping answers, as SageMaker does: no model need be there. Raises NotReady."""
        self._triton.wait_until_ready(seconds=seconds, cancelled=cancelled)
        self.version = self._triton.version

    def stop(self) -> None:
        try:
            self._triton.stop()
        finally:
            shutil.rmtree(self._work, ignore_errors=True)


def memory_file(site: Site, endpoint: str) -> Path:
    """The file with the number of models that fit into the endpoint's memory; without it Triton alone decides."""
    return site.state_dir / "memory" / endpoint


class _Memory:
    """The container on an instance whose memory holds so many models."""

    def __init__(self, triton: Triton, limit: Path) -> None:
        self._triton = triton
        self._limit = limit
        self._names: set[str] = set()

    def load(self, name: str, folder: Path, *, target: str) -> Answer:
        if self._limit.exists() and len(self._names) >= int(self._limit.read_text()):
            return Answer(status=FULL, headers={}, body=b'{"error":"stand-in: no room for another model"}')
        answer = self._triton.load(name, folder, target=target)
        if answer.status == 200:
            self._names.add(name)
        return answer

    def unload(self, name: str, *, target: str) -> Answer:
        answer = self._triton.unload(name, target=target)
        self._names.discard(name)
        return answer


class _Volume:
    """Unpacked models below `root`, as SageMaker lays them: <hash>/model."""

    def __init__(self, site: Site, *, region: str, container: Container, root: Path, record: Record) -> None:
        self._s3: Any = site.client("s3", region, role=container.role)
        self._bucket, _, self._prefix = container.model_data_url.removeprefix("s3://").partition("/")
        self._root = root
        self._record = record

    def folder(self, target: str) -> Path:
        """Raises Refused for what cannot be downloaded or unpacked."""
        folder = self._root / name_of(target) / "model"
        if not folder.exists():
            began = time.monotonic()
            self._download(self._prefix + target, folder)
            self._record("ModelDownloadingTime", time.monotonic() - began)
        return folder

    def forget(self, target: str) -> None:
        shutil.rmtree(self._root / name_of(target), ignore_errors=True)

    def _download(self, key: str, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        archive = folder.parent / "archive"
        try:
            self._s3.download_file(self._bucket, key, str(archive))
            unpack(archive, folder)
        except ClientError as error:
            raise Refused(
                f"Failed to download model data(bucket: {self._bucket}, key: {key}). Please ensure that there is an "
                "object located at the URL and that the role passed to CreateModel has permissions to download the "
                "model."
            ) from error
        except ArchiveError as error:
            raise Refused(
                f'Failed to extract model data archive from URL "s3://{self._bucket}/{key}". Please ensure that the '
                f"object located at the URL is a valid tar.gz archive. ({error})"
            ) from error
        finally:
            archive.unlink(missing_ok=True)
