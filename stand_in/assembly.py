"""Put the stand-in together: moto, CloudFormation, executor, pages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app

from stand_in import hooks_jobs, moto_corrections, sweep
from stand_in.access.record import Record
from stand_in.cloudformation.readback import read_back
from stand_in.cloudformation.service import CloudFormation
from stand_in.executor.executor import Executor
from stand_in.hooks import Hooks
from stand_in.lambda_runtime import FunctionNotFound
from stand_in.server import Application


def assemble(
    *, base_url: str, account: str, state_dir: Path, root: Path, mode: str
) -> tuple[Application, Callable[[], None]]:
    """The WSGI application, and a function that ends everything it started."""
    # What was delivered where, and what went wrong in a thread, is told by the log only.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("stand_in").setLevel(logging.INFO)
    moto_corrections.apply()

    executor = Executor(base_url=base_url, state_dir=state_dir, repo_root=root, mode=mode)

    def invoke(arn: str, payload: Mapping[str, Any], region: str) -> Any:
        try:
            return executor.lambdas.invoke(arn, dict(payload), region=region).payload
        except FunctionNotFound as error:
            return {"errorMessage": str(error), "errorType": "ResourceNotFoundException"}

    cloudformation = CloudFormation(
        account=account, base_url=base_url, client=executor.site.own_client, invoke_lambda=invoke
    )
    hooks = Hooks()
    hooks_jobs.install(hooks, executor)
    moto = executor.site.locked(DomainDispatcherApplication(create_backend_app))
    record = Record(executor.site.moto_lock, stack_of=cloudformation.stack_id)
    application = Application(moto=moto, cloudformation=cloudformation, hooks=hooks, record=record)
    application.page("/_torchlift/access", record.page)
    application.page("/_torchlift/state", lambda _: executor.state())

    def inventory(query: str) -> Any:
        running = {f"processes/{process['pid']}/{process['what']}": "" for process in executor.state()["processes"]}
        return sweep.inventory(account, parse_qs(query)["region"][0]) | cloudformation.inventory() | running

    application.page("/_torchlift/inventory", inventory)

    def readback(query: str) -> Any:
        values = parse_qs(query)
        stack = cloudformation.stack(values["stack"][0], values["region"][0])
        return read_back(stack, cloudformation.context(stack))

    application.page("/_torchlift/readback", readback)
    return application, executor.close


def request_handler() -> Any:
    """moto's request handler without a line per request in the log."""

    class Quiet(MotoRequestHandler):  # type: ignore[misc]
        protocol_version = "HTTP/1.1"

        def log_request(self, *_: object) -> None:
            """Nothing."""

    return Quiet
