"""Where the stand-in's own behaviour attaches to moto's: before, after, or instead of one API action."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request to an AWS API; `response` is filled in when it has been answered."""

    service: str
    action: str
    region: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    response: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a hook answers in moto's place."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


After = Callable[[Call], None]
Instead = Callable[[Call], Answer]


class Hooks:
    """Registered by (service, action), such as ("codebuild", "StartBuild")."""

    def __init__(self) -> None:
        self._after: dict[tuple[str, str], list[After]] = defaultdict(list)
        self._instead: dict[tuple[str, str], Instead] = {}

    def after(self, service: str, action: str, hook: After) -> None:
        """Run `hook` when moto has answered the action with success."""
        self._after[service, action].append(hook)

    def instead(self, service: str, action: str, hook: Instead) -> None:
        """Let `hook` answer the action."""
        self._instead[service, action] = hook

    def replacement(self, service: str, action: str) -> Instead | None:
        """The hook that answers the action, if one does."""
        return self._instead.get((service, action))

    def wants(self, service: str) -> bool:
        """True when any hook concerns the service: its requests are then read before moto gets them."""
        return any(key[0] == service for key in (*self._after, *self._instead))

    def run_after(self, call: Call) -> None:
        """Run the hooks of an answered call."""
        for hook in self._after.get((call.service, call.action), ()):
            hook(call)


def action_of(*, service: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> str:
    """The API action of a request: from its target header, its query parameters or, for REST, its path."""
    target = headers.get("X-Amz-Target", "")
    if target:
        return target.rpartition(".")[2]
    if service == "sagemaker" and path.startswith("/endpoints/") and path.endswith("/invocations"):
        return "InvokeEndpoint"
    if service == "lambda" and "/functions/" in path and path.endswith("/invocations"):
        return "Invoke"
    if method == "POST" and headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
        return dict(parse_qsl(body.decode(errors="replace"))).get("Action", "")
    return ""


def parameters_of(call: Call) -> dict[str, Any]:
    """The flat parameters of a query-protocol call."""
    return dict(parse_qsl(call.body.decode(), keep_blank_values=True))
