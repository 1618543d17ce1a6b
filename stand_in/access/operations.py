"""Which operation of which service a signed request is, and its parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import botocore.session
from botocore.model import OperationModel

REST = {"s3": "s3", "lambda": "lambda"}
"""Services whose operation lies in method and path: {name in a signature: botocore's}."""
RUNTIME = {"sagemaker": "sagemaker-runtime"}
"""The same, for requests of a service without a target header."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client sent; `body` is empty where the operation does not depend on it."""

    service: str
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """`PutObject` and its parameters: of REST services those in path, query and headers."""

    name: str
    parameters: Mapping[str, Any]


def operation(request: Request) -> Operation:
    """Tell a request's operation; the name is empty when it cannot be told."""
    target = request.headers.get("X-Amz-Target", "")
    if target:
        return Operation(name=target.rpartition(".")[2], parameters=json.loads(request.body or b"{}"))
    if request.path.startswith("/service/"):  # smithy's RPC protocol: /service/<service>/operation/<operation>
        return Operation(name=request.path.rpartition("/")[2], parameters={})
    service = REST.get(request.service) or RUNTIME.get(request.service)
    if service is not None:
        return _rest(service, request)
    flat = dict(parse_qsl(request.body.decode(errors="replace"), keep_blank_values=True))
    return Operation(name=flat.pop("Action", ""), parameters=flat)


def _rest(service: str, request: Request) -> Operation:
    query = dict(parse_qsl(request.query, keep_blank_values=True))
    headers = {name.lower(): value for name, value in request.headers.items()}
    best, best_score, found = "", -1, {}
    for route in _routes(service):
        match = route.path.fullmatch(request.path) if route.method == request.method else None
        if match is None or not route.query.items() <= query.items():
            continue
        if not (route.required_query <= query.keys() and route.required_headers <= headers.keys()):
            continue
        score = len(route.query) + len(route.required_query) + len(route.required_headers)
        if score > best_score:
            parameters = dict(match.groupdict())
            for name, where in route.optional.items():
                if where in query or where in headers:
                    parameters[name] = query.get(where, headers.get(where, ""))
            best, best_score, found = route.name, score, parameters
    return Operation(name=best, parameters=found)


@dataclass(frozen=True, kw_only=True)
class Route:
    """How an operation of a REST service is told from the others."""

    name: str
    method: str
    path: re.Pattern[str]
    query: Mapping[str, str]
    required_query: frozenset[str]
    required_headers: frozenset[str]
    optional: Mapping[str, str]


@cache
def _routes(service: str) -> tuple[Route, ...]:
    model = botocore.session.get_session().get_service_model(service)
    return tuple(_route(model.operation_model(name)) for name in model.operation_names)


def _route(model: OperationModel) -> Route:
    path, _, query = model.http["requestUri"].partition("?")
    pattern = re.sub(r"\\\{(\w+)\\\+\\\}", r"(?P<\1>.+)", re.escape(path))
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", pattern)
    members = model.input_shape.members if model.input_shape else {}
    required = set(model.input_shape.required_members) if model.input_shape else set()
    places = {
        name: (shape.serialization.get("location", ""), str(shape.serialization.get("name", name)).lower())
        for name, shape in members.items()
    }
    own = {name: str(members[name].serialization.get("name", name)) for name in members}
    return Route(
        name=model.name,
        method=model.http["method"],
        path=re.compile(pattern.rstrip("/") + "/?"),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        required_query=frozenset(own[name] for name in required if places[name][0] == "querystring"),
        required_headers=frozenset(places[name][1] for name in required if places[name][0] == "header"),
        optional={
            name: own[name] if place == "querystring" else lowered
            for name, (place, lowered) in places.items()
            if place in ("querystring", "header")
        },
    )
