"""Triton's SageMaker container behind an endpoint, in the mode that its Model asks for."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from stand_in.executor import model_data, triton
from stand_in.executor.multi_model import MultiModel
from stand_in.executor.servers import CannotServe, Container, ModelServer
from stand_in.executor.site import Site
from stand_in.executor.triton import Triton


class SingleModel(ModelServer):
    """One model, loaded at the start; `stop()` also removes its folder."""

    def __init__(self, *, container: Container, server: Triton, work: Path, probe: bytes) -> None:
        super().__init__(child=server.child, program="Triton", version="", port=server.port, container=container)
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
        super().stop()
        shutil.rmtree(self._work, ignore_errors=True)


def start(site: Site, *, region: str, endpoint: str, container: Container) -> ModelServer:
    """Start the server; it is not ready yet. Raises CannotServe."""
    parent = site.state_dir / "servers"
    parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=parent, prefix="triton-"))
    try:
        return _start(site, work, region=region, endpoint=endpoint, container=container)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _start(site: Site, work: Path, *, region: str, endpoint: str, container: Container) -> ModelServer:
    venv = triton.environment_folder(site.repo_root)
    single = None if container.multi_model else work / "model"
    probe = b""
    if single is not None:
        model_data.fetch(site, region, container, single)
        probe = request_for(single / triton.default_model(single, container.environment))
    (work / "scratch").mkdir()
    server = triton.start(
        venv=venv,
        scratch=work / "scratch",
        log=site.log_path(f"endpoint-{endpoint}"),
        environment={**container.environment, **({} if single else {"SAGEMAKER_MULTI_MODEL": "true"})},
        single=single,
    )
    if single is not None:
        return SingleModel(container=container, server=server, work=work, probe=probe)
    return MultiModel(site, region=region, endpoint=endpoint, container=container, triton=server, work=work)


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
