"""Triton's SageMaker container behind an endpoint, in the mode that its Model asks for."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from stand_in.executor import model_data, triton
from stand_in.executor.multi_model import MultiModel
from stand_in.executor.servers import CannotServe, Container, ModelServer
from stand_in.executor.site import Site
from stand_in.executor.triton import Triton

Begin = Callable[[Path, Path, Path, dict[str, str]], Triton]
"""Starts a server, given the folder of the model or models, an empty folder, the log and the container's variables."""


class SingleModel(ModelServer):
    """One model, loaded at the start; `stop()` also removes its folder."""

    def __init__(self, *, container: Container, server: Triton, work: Path, probe: bytes) -> None:
        super().__init__(child=server.child, program=server.program, version="", port=server.port, container=container)
        self._server = server
        self._work = work
        self._probe = probe

    def wait_until_ready(
        self, probe: bytes, *, seconds: float, hopeless: tuple[str, int] | None, cancelled: threading.Event
    ) -> None:
        """Block until /ping answers, then until the model answers a request made from its config. Raises NotReady."""
        deadline = time.monotonic() + seconds
        self._server.wait_until_ready(seconds=seconds, cancelled=cancelled)
        self.version = self._server.version
        left = max(1.0, deadline - time.monotonic())
        super().wait_until_ready(self._probe, seconds=left, hopeless=hopeless, cancelled=cancelled)

    def stop(self) -> None:
        try:
            self._server.stop()
        finally:
            shutil.rmtree(self._work, ignore_errors=True)


def start(site: Site, *, region: str, endpoint: str, container: Container, begin: Begin | None = None) -> ModelServer:
    """Start the server; it is not ready yet. Raises CannotServe.

    :param begin: how it is started; a process of this machine without
    """
    parent = site.state_dir / "servers"
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=parent, prefix="triton-"))
    begin = begin or partial(_process, triton.environment_folder(site.repo_root), container.multi_model)
    try:
        return _start(site, work, begin, region=region, endpoint=endpoint, container=container)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _process(
    venv: Path, multi_model: bool, models: Path, scratch: Path, log: Path, variables: dict[str, str]
) -> Triton:
    single = None if multi_model else models
    return triton.start(venv=venv, scratch=scratch, log=log, environment=variables, single=single)


def _start(site: Site, work: Path, begin: Begin, *, region: str, endpoint: str, container: Container) -> ModelServer:
    models, scratch = work / "models", work / "scratch"
    scratch.mkdir()
    log = site.log_path(f"endpoint-{endpoint}")
    if container.multi_model:
        models.mkdir()
        server = begin(models, scratch, log, {**container.environment, "SAGEMAKER_MULTI_MODEL": "true"})
        return MultiModel(site, region=region, endpoint=endpoint, container=container, triton=server, work=work)
    model_data.fetch(site, region, container, models)
    probe = request_for(models / triton.default_model(models, container.environment))
    server = begin(models, scratch, log, dict(container.environment))
    return SingleModel(container=container, server=server, work=work, probe=probe)


def request_for(model: Path) -> bytes:
    """The smallest request for the model in a folder, all zeros, as JSON. Raises CannotServe."""
    # gRPC's message types take a while to load, and not every stand-in serves a Triton.
    from tritonclient.grpc import model_config_pb2

    from model_code.text_encoding import model_config

    try:
        config = model_config.parse((model / "config.pbtxt").read_text(encoding="utf-8"))
    except (OSError, model_config.ConfigError) as error:
        raise CannotServe(f"model {model.name}: {error}") from error
    types = model_config_pb2.DataType
    inputs: list[dict[str, Any]] = []
    for one in config.input:
        shape = [*([1] if config.max_batch_size else []), *(max(1, size) for size in one.dims)]
        kind = types.Name(one.data_type).removeprefix("TYPE_").replace("STRING", "BYTES")
        data = ["" if kind == "BYTES" else 0] * math.prod(shape)
        inputs.append({"name": one.name, "shape": shape, "datatype": kind, "data": data})
    return json.dumps({"inputs": inputs}).encode()
