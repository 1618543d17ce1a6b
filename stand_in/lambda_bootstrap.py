"""Runs one invocation of a Lambda handler in a process of its own; started by `lambda_runtime`, never imported.

    python lambda_bootstrap.py REQUEST ANSWER

REQUEST is a JSON file: `{"root", "handler", "payload", "context": {…}, "seconds"}`. ANSWER is written as JSON:
`{"error": bool, "payload": …}`. What the handler prints goes to this process's output.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any


class Context:
    """What Lambda passes to a handler besides the event."""

    def __init__(self, given: dict[str, Any], seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self.function_name = given["function_name"]
        self.function_version = given["function_version"]
        self.invoked_function_arn = given["invoked_function_arn"]
        self.memory_limit_in_mb = given["memory_limit_in_mb"]
        self.aws_request_id = given["aws_request_id"]
        self.log_group_name = given["log_group_name"]
        self.log_stream_name = given["log_stream_name"]
        self.identity = None
        self.client_context = None

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function's timeout."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def main() -> None:
    """Run the handler and write its answer."""
    request = json.loads(Path(sys.argv[1]).read_text())
    root, handler = request["root"], request["handler"]
    # Only the archive, the standard library and what is installed: nothing of the checkout that the stand-in runs in.
    sys.path[:] = [root, *(path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix)))]
    answer = _run(handler, request["payload"], Context(request["context"], request["seconds"]))
    if answer["error"]:
        print(f"[ERROR] {answer['payload']['errorType']}: {answer['payload']['errorMessage']}")
        print("".join(answer["payload"]["stackTrace"]), end="")
    Path(sys.argv[2]).write_text(json.dumps(answer))


def _run(handler: str, payload: Any, context: Context) -> dict[str, Any]:
    module_name, _, function_name = handler.rpartition(".")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        return _failed("Runtime.ImportModuleError", f"Unable to import module '{module_name}': {error}", [])
    except SyntaxError as error:
        return _failed("Runtime.UserCodeSyntaxError", f"Syntax error in module '{module_name}': {error}", [])
    function = getattr(module, function_name, None)
    if function is None:
        return _failed("Runtime.HandlerNotFound", f"Handler '{function_name}' missing on module '{module_name}'", [])
    try:
        result = function(payload, context)
    except Exception as error:
        trace = traceback.format_list(traceback.extract_tb(error.__traceback__)[1:])
        return _failed(type(error).__name__, str(error), trace)
    try:
        json.dumps(result)
    except (TypeError, ValueError) as error:
        return _failed("Runtime.MarshalError", f"Unable to marshal response: {error}", [])
    return {"error": False, "payload": result}


def _failed(kind: str, message: str, trace: list[str]) -> dict[str, Any]:
    return {"error": True, "payload": {"errorMessage": message, "errorType": kind, "stackTrace": trace}}


if __name__ == "__main__":
    main()
