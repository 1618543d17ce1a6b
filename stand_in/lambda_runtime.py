"""Runs the stand-in's Lambda functions for real: their own archive, their own environment, a process an invocation."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda.models import LambdaFunction, lambda_backends

from stand_in.environment import ACCOUNT
from stand_in.executor import log_groups
from stand_in.executor.processes import Child, spawn
from stand_in.executor.site import Site
from stand_in.executor.state import ProcessState
from stand_in.executor.together import together

BOOTSTRAP = Path(__file__).with_name("lambda_bootstrap.py")
ASYNCHRONOUS_RETRIES = 2
"""Lambda's own number of further attempts when an asynchronous invocation fails."""
RETRY_PAUSE_S = 1.0
"""Lambda waits one and two minutes; what matters here is that it tries again."""


class FunctionNotFound(LookupError):
    """No function has this name or ARN; the message is Lambda's."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """How an invocation ended. With `error`, `payload` is `{"errorMessage", "errorType", "stackTrace"}`."""

    payload: Any
    error: bool
    log: str


class LambdaRuntime:
    """Invokes functions; any number at the same time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._folder = site.state_dir / "lambda"
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="lambda")

    def invoke(
        self, function: str, payload: Any, *, region: str, account: str = ACCOUNT, request_id: str = ""
    ) -> Result:
        """Run a function by name or ARN and wait for its answer; `request_id` is made up when none is given.

        A failing handler is no exception here but a Result with `error`. Raises FunctionNotFound.
        """
        found = self._find(function, account, region)
        request_id = request_id or str(uuid.uuid4())
        group = _log_group(found)
        stream = f"{time.strftime('%Y/%m/%d')}/[$LATEST]{uuid.uuid4().hex}"
        try:
            # On AWS the handler would run and its log be lost: here that is an error, since it is always a mistake.
            log_groups.require(account, region, group)
        except log_groups.NoSuchLogGroup as error:
            return Result(payload=_error("Runtime.LogGroupMissing", str(error)), error=True, log="")
        started = time.monotonic()
        answer, output = self._run(found, payload, request_id, group, stream, region)
        milliseconds = (time.monotonic() - started) * 1000
        lines = [
            f"START RequestId: {request_id} Version: $LATEST",
            *output.splitlines(),
            f"END RequestId: {request_id}",
            f"REPORT RequestId: {request_id}\tDuration: {milliseconds:.2f} ms\tMemory Size: {found.memory_size} MB",
        ]
        log_groups.write(self._site.moto_lock, account, region, group, stream, lines)
        return Result(payload=answer["payload"], error=answer["error"], log="\n".join(lines))

    def invoke_later(self, function: str, payload: Any, *, region: str, account: str = ACCOUNT) -> None:
        """Run a function asynchronously; a failure is tried again twice, as Lambda does."""
        self._pool.submit(self.invoke_with_retries, function, payload, region=region, account=account)

    def invoke_with_retries(self, function: str, payload: Any, *, region: str, account: str = ACCOUNT) -> Result:
        """What an asynchronous invocation amounts to, waited for. Raises FunctionNotFound."""
        # Lambda's further attempts carry the first one's request id: handlers may tell repetitions by it.
        request_id = str(uuid.uuid4())
        result = self.invoke(function, payload, region=region, account=account, request_id=request_id)
        for attempt in range(ASYNCHRONOUS_RETRIES):
            if not result.error or self._closed.wait(RETRY_PAUSE_S * (attempt + 1)):
                break
            result = self.invoke(function, payload, region=region, account=account, request_id=request_id)
        return result

    def http_invoke(
        self, account: str, region: str, function: str, invocation_type: str, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer the Invoke call: status, headers and body of the response."""
        try:
            payload = json.loads(body) if body else {}
        except ValueError as error:
            message = f"Could not parse request body into json: {error}"
            return _refusal(400, "InvalidRequestContentException", message)
        try:
            self._find(function, account, region)
            if invocation_type == "DryRun":
                return 204, {}, b""
            if invocation_type == "Event":
                self.invoke_later(function, payload, region=region, account=account)
                return 202, {}, b""
            result = self.invoke(function, payload, region=region, account=account)
        except FunctionNotFound as error:
            return _refusal(404, "ResourceNotFoundException", str(error))
        headers = {
            "Content-Type": "application/json",
            "X-Amz-Executed-Version": "$LATEST",
            "X-Amz-Log-Result": base64.b64encode(result.log.encode()[-4096:]).decode(),
        }
        if result.error:
            headers["X-Amz-Function-Error"] = "Unhandled"
        return 200, headers, json.dumps(result.payload).encode()

    def close(self) -> None:
        """End what runs, and start nothing further."""
        with self._lock:
            self._closed.set()
            children = list(self._children)
        self._pool.shutdown(wait=False, cancel_futures=True)
        together(child.stop for child in children)
        for child in children:
            self._site.registry.process_ended(child.pid)

    def _find(self, function: str, account: str, region: str) -> LambdaFunction:
        if function.startswith("arn:"):
            region, account = function.split(":")[3:5]
        try:
            return lambda_backends[account][region].get_function(function)
        except UnknownFunctionException as error:
            arn = function if function.startswith("arn:") else f"arn:aws:lambda:{region}:{account}:function:{function}"
            raise FunctionNotFound(f"Function not found: {arn}") from error

    def _run(
        self, function: LambdaFunction, payload: Any, request_id: str, group: str, stream: str, region: str
    ) -> tuple[dict[str, Any], str]:
        """Run the handler in a child; returns its answer and what it printed."""
        root = self._unpacked(function)
        folder = self._folder / "requests" / f"{request_id}-{uuid.uuid4().hex[:8]}"
        folder.mkdir(parents=True)
        seconds = float(function.timeout)
        context = {
            "function_name": function.function_name,
            "function_version": "$LATEST",
            "invoked_function_arn": function.function_arn,
            "memory_limit_in_mb": str(function.memory_size),
            "aws_request_id": request_id,
            "log_group_name": group,
            "log_stream_name": stream,
        }
        request = {
            "root": str(root),
            "handler": function.handler,
            "payload": payload,
            "context": context,
            "seconds": seconds,
        }
        (folder / "request.json").write_text(json.dumps(request))
        log, answer = folder / "output.log", folder / "answer.json"
        environment = self._site.environment(region, role=str(function.role)) | {
            **{str(name): str(value) for name, value in function.environment_vars.items()},
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_LOG_GROUP_NAME": group,
            "AWS_LAMBDA_LOG_STREAM_NAME": stream,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "LAMBDA_TASK_ROOT": str(root),
            "_HANDLER": function.handler,
        }
        command = [sys.executable, str(BOOTSTRAP), str(folder / "request.json"), str(answer)]
        with self._lock:
            if self._closed.is_set():
                message = f"RequestId: {request_id} Error: the stand-in is shutting down"
                return {"error": True, "payload": _error("Runtime.ExitError", message)}, message
            child = spawn(command, env=environment, cwd=root, log=log)
            self._children.add(child)
        self._site.registry.process_started(ProcessState(pid=child.pid, what=f"lambda {function.function_name}"))
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            message = f"RequestId: {request_id} Error: Task timed out after {seconds:.2f} seconds"
            return {"error": True, "payload": _error("Sandbox.Timedout", message)}, log.read_text() + message
        finally:
            child.stop()
            self._site.registry.process_ended(child.pid)
            with self._lock:
                self._children.discard(child)
        output = log.read_text(errors="replace")
        if not answer.exists():
            message = f"RequestId: {request_id} Error: Runtime exited with error: exit status {child.poll()}"
            return {"error": True, "payload": _error("Runtime.ExitError", message)}, output + message
        result: dict[str, Any] = json.loads(answer.read_text())
        shutil.rmtree(folder)
        return result, output

    def _unpacked(self, function: LambdaFunction) -> Path:
        """The folder with the function's archive, unpacked once per content."""
        digest = base64.b64decode(function.code_sha_256).hex()
        folder = self._folder / "code" / digest
        with self._lock:
            if not folder.exists():
                partial = folder.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                with zipfile.ZipFile(BytesIO(function.code_bytes)) as archive:
                    archive.extractall(partial)
                partial.rename(folder)
        return folder


def _log_group(function: LambdaFunction) -> str:
    return str(function.logs_group_name)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"errorMessage": message, "errorType": kind, "stackTrace": []}


def _refusal(status: int, kind: str, message: str) -> tuple[int, dict[str, str], bytes]:
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": kind}
    return status, headers, json.dumps({"Type": "User", "Message": message}).encode()
