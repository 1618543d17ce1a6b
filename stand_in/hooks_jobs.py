"""Attaches the executor to moto's APIs: what AWS would run in answer to a call is run here."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any
from urllib.parse import unquote

from stand_in.environment import ACCOUNT
from stand_in.executor.executor import Executor
from stand_in.hooks import Answer, Call, Hooks

log = logging.getLogger(__name__)
GROUP_ACTIONS = (
    "CreateAutoScalingGroup",
    "UpdateAutoScalingGroup",
    "SetDesiredCapacity",
    "DeleteAutoScalingGroup",
    "TerminateInstanceInAutoScalingGroup",
)


def install(hooks: Hooks, executor: Executor) -> None:
    """Register every hook. They return at once: what takes time has its own thread in the executor."""
    _builds(hooks, executor)
    _groups(hooks, executor)
    _endpoints(hooks, executor)
    hooks.instead("lambda", "Invoke", lambda call: _invoke_function(executor, call))


def _builds(hooks: Hooks, executor: Executor) -> None:
    def start(call: Call) -> None:
        build_id = json.loads(call.response)["build"]["id"]
        executor.builds.start(call.region, build_id, json.loads(call.body))

    def stop(call: Call) -> None:
        # A process may take seconds to end; StopBuild answers before.
        threading.Thread(target=executor.builds.stop, args=(json.loads(call.body)["id"],), daemon=True).start()

    hooks.after("codebuild", "StartBuild", start)
    hooks.after("codebuild", "StopBuild", stop)


def _groups(hooks: Hooks, executor: Executor) -> None:
    def follow(call: Call) -> None:
        executor.instances.follow(call.region)
        executor.fleets.follow(call.region)

    for action in GROUP_ACTIONS:
        hooks.after("autoscaling", action, follow)
    # moto replaces an instance of a group that was terminated through EC2.
    hooks.after("ec2", "TerminateInstances", follow)
    hooks.after(
        "elasticloadbalancing",
        "DeleteLoadBalancer",
        lambda call: executor.fleets.follow_load_balancers(call.region),
    )


def _endpoints(hooks: Hooks, executor: Executor) -> None:
    def request(call: Call) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(call.body)
        return found

    def create(call: Call) -> None:
        executor.endpoints.created(call.region, request(call)["EndpointName"])

    def update(call: Call) -> None:
        found = request(call)
        executor.endpoints.updated(call.region, found["EndpointName"], found)

    def delete(call: Call) -> None:
        executor.endpoints.deleted(call.region, request(call)["EndpointName"])

    def invoke(call: Call) -> Answer:
        name = unquote(call.path.split("/")[2])
        return executor.endpoints.invoke(call.region, name, call.headers, call.body)

    hooks.after("sagemaker", "CreateEndpoint", create)
    hooks.after("sagemaker", "UpdateEndpoint", update)
    hooks.after("sagemaker", "DeleteEndpoint", delete)
    hooks.instead("sagemaker", "InvokeEndpoint", invoke)


def _invoke_function(executor: Executor, call: Call) -> Answer:
    function = unquote(call.path.partition("/functions/")[2].rpartition("/invocations")[0])
    kind = call.headers.get("X-Amz-Invocation-Type") or "RequestResponse"
    status, headers, body = executor.lambdas.http_invoke(ACCOUNT, call.region, function, kind, call.body)
    return Answer(status=status, body=body, headers=headers)
