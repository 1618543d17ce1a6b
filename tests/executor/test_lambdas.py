"""Lambda functions run for real: their archive, their environment, their limits, their log group."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.executor.conftest import World, eventually, zip_of

HANDLER = """
import json, os, sys, time
import helper
def handler(event, context):
    print("hello", event["name"])
    return {"name": helper.double(event["name"]), "stage": os.environ["STAGE"], "id": context.aws_request_id,
            "left": context.get_remaining_time_in_millis(), "arn": context.invoked_function_arn}
"""


def invoke(world: World, name: str, payload: Any, **options: Any) -> tuple[Any, Any]:
    answer = world.client("lambda").invoke(FunctionName=name, Payload=json.dumps(payload), **options)
    body = answer["Payload"].read()
    return answer, json.loads(body) if body else None


def test_a_function_runs_its_archive(world: World) -> None:
    arn = world.function("f", HANDLER, Environment={"Variables": {"STAGE": "test"}})
    world.client("lambda").update_function_code(
        FunctionName="f", ZipFile=zip_of({"index.py": HANDLER, "helper.py": "def double(x): return x + x"})
    )
    answer, payload = invoke(world, "f", {"name": "ab"}, LogType="Tail")
    assert "FunctionError" not in answer
    assert (payload["name"], payload["stage"], payload["arn"]) == ("abab", "test", arn)
    assert 10_000 < payload["left"] <= 20_000
    assert "hello ab" in base64.b64decode(answer["LogResult"]).decode()
    logged = world.client("logs").filter_log_events(logGroupName="/functions/f")["events"]
    assert "hello ab" in [one["message"] for one in logged]
    assert invoke(world, arn, {"name": "c"})[1]["name"] == "cc"


def test_an_error_is_the_functions_answer(world: World) -> None:
    world.function("f", "def handler(event, context):\n    raise KeyError('no such thing')\n")
    answer, payload = invoke(world, "f", {})
    assert answer["FunctionError"] == "Unhandled"
    assert payload["errorType"] == "KeyError" and "no such thing" in payload["errorMessage"]
    assert world.executor.lambdas.invoke("f", {}, region="eu-west-1").payload["errorType"] == "KeyError"


def test_a_function_that_exits_or_does_not_import(world: World) -> None:
    world.function("exits", "import os\ndef handler(event, context):\n    os._exit(3)\n")
    assert invoke(world, "exits", {})[1]["errorType"] == "Runtime.ExitError"
    world.function("broken", "import nothing_of_this_name\n")
    assert "nothing_of_this_name" in invoke(world, "broken", {})[1]["errorMessage"]


def test_time_runs_out(world: World) -> None:
    world.function("f", "import time\ndef handler(event, context):\n    time.sleep(30)\n", Timeout=1)
    answer, payload = invoke(world, "f", {})
    assert answer["FunctionError"] == "Unhandled"
    assert "Task timed out after 1.00 seconds" in payload["errorMessage"]


def test_a_missing_log_group_is_an_error(world: World) -> None:
    world.function("f", "def handler(event, context):\n    return 1\n", log_group=False)
    _, payload = invoke(world, "f", {})
    assert "/functions/f does not exist" in payload["errorMessage"]


def test_an_unknown_function(world: World) -> None:
    client = world.client("lambda")
    try:
        client.invoke(FunctionName="nobody", Payload=b"{}")
    except client.exceptions.ResourceNotFoundException as error:
        assert "function:nobody" in str(error)
    else:
        raise AssertionError("an unknown function was invoked")


def test_an_asynchronous_failure_is_tried_again(world: World) -> None:
    world.put("tries", "first", b"")
    code = (
        "import boto3, time\ndef handler(event, context):\n"
        "    boto3.client('s3').put_object(Bucket='tries', Key=f'{context.aws_request_id}/{time.time()}', Body=b'')\n"
        "    tries = boto3.client('s3').list_objects_v2(Bucket='tries')['KeyCount'] - 1\n"
        "    assert tries >= 3, tries\n"
    )
    world.function("f", code)
    answer, payload = invoke(world, "f", {}, InvocationType="Event")
    assert (answer["StatusCode"], payload) == (202, None)
    eventually(lambda: world.client("s3").list_objects_v2(Bucket="tries")["KeyCount"] == 4)
    keys = [one["Key"] for one in world.client("s3").list_objects_v2(Bucket="tries")["Contents"]]
    assert len({key.split("/")[0] for key in keys if "/" in key}) == 1, "attempts share their request id"
