"""SageMaker endpoints: real servers on loopback behind the endpoints that moto keeps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from moto.sagemaker.models import sagemaker_backends

from stand_in.environment import ACCOUNT
from stand_in.executor import direct, endpoint_servers, endpoint_updates, invocations
from stand_in.executor.endpoint_servers import CannotDeploy, ServerSet
from stand_in.executor.site import Site
from stand_in.executor.state import EndpointState
from stand_in.executor.together import together, wait_for
from stand_in.hooks import Answer

log = logging.getLogger(__name__)
REASON_CHARACTERS = 1024
"""The longest FailureReason that SageMaker gives."""

Key = tuple[str, str]


@dataclass(kw_only=True)
class _Endpoint:
    """One endpoint from its creation to its deletion; a second one of the same name is another object."""

    region: str
    name: str
    moto: Any
    servers: ServerSet | None = None
    invocations: int = 0
    image: str = ""
    model: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)


class Endpoints:
    """Every endpoint of every region. What takes time happens in threads of its own."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._endpoints: dict[Key, _Endpoint] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False

    def created(self, region: str, name: str) -> None:
        """moto has answered CreateEndpoint: bring the endpoint into service, or let it fail."""
        moto = sagemaker_backends[ACCOUNT][region].endpoints.get(name)
        if moto is None:
            return
        endpoint = _Endpoint(region=region, name=name, moto=moto)
        with self._lock:
            if self._closed:
                return
            self._endpoints[region, name] = endpoint
        self._in_background(self._deploy, endpoint, moto.endpoint_config_name, {})

    def updated(self, region: str, name: str, request: Mapping[str, Any]) -> None:
        """moto has answered UpdateEndpoint: swap to the servers of the new configuration when they are ready."""
        with self._lock:
            endpoint = self._endpoints.get((region, name))
        if endpoint is not None:
            self._in_background(self._deploy, endpoint, request["EndpointConfigName"], request)

    def deleted(self, region: str, name: str) -> None:
        """moto has answered DeleteEndpoint: end the servers."""
        with self._lock:
            endpoint = self._endpoints.pop((region, name), None)
            if endpoint is None:
                return
            endpoint.cancelled.set()
            servers, endpoint.servers = endpoint.servers, None
        if servers is not None:
            self._in_background(servers.stop)

    def invoke(self, region: str, name: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer InvokeEndpoint."""
        with self._lock:
            endpoint = self._endpoints.get((region, name))
            servers = endpoint.servers if endpoint else None
            if endpoint is None or servers is None:
                return invocations.not_found(name)
            endpoint.invocations += 1
            servers.__enter__()
        try:
            return invocations.invoke(servers, region=region, name=name, headers=headers, body=body)
        finally:
            servers.__exit__()

    def states(self) -> list[EndpointState]:
        """The endpoints as `/_torchlift/state` shows them; `program` is the one that answers or is to answer."""
        with self._lock:
            return [_state(endpoint) for endpoint in self._endpoints.values()]

    def close(self) -> None:
        """End every server, and wait for it."""
        with self._lock:
            self._closed = True
            for endpoint in self._endpoints.values():
                endpoint.cancelled.set()
            running = [one.servers for one in self._endpoints.values() if one.servers]
            self._endpoints.clear()
            threads = list(self._threads)
        together([*(partial(one.stop, drain_s=0) for one in running), partial(wait_for, threads)])

    def _in_background(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, name="endpoint", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()

    def _deploy(self, endpoint: _Endpoint, config_name: str, request: Mapping[str, Any]) -> None:
        try:
            with self._site.moto_lock:
                config = _config(endpoint.region, config_name)
            container = endpoint_servers.container_of(endpoint.region, config[0])
            if endpoint.servers is None:
                endpoint.image, endpoint.model = container.image, container.model
            servers = endpoint_servers.start(
                self._site,
                region=endpoint.region,
                endpoint=endpoint.name,
                variants=config,
                cancelled=endpoint.cancelled,
            )
        except CannotDeploy as error:
            self._failed(endpoint, str(error))
        except Exception as error:  # whatever it is, the endpoint must not stay "Creating"
            log.exception("endpoint %s", endpoint.name)
            self._failed(endpoint, f"{type(error).__name__}: {error}")
        else:
            self._in_service(endpoint, config_name, config, request, servers)

    def _in_service(
        self,
        endpoint: _Endpoint,
        config_name: str,
        config: list[dict[str, Any]],
        request: Mapping[str, Any],
        servers: ServerSet,
    ) -> None:
        ringing = endpoint_updates.alarms_ringing(endpoint.region, request)
        if ringing:
            # As SageMaker does with AutoRollbackConfiguration: the new fleet goes, the old one stays.
            servers.stop()
            self._failed(endpoint, f"Deployment was rolled back: alarms in ALARM state: {', '.join(ringing)}")
            return
        with self._lock, self._site.moto_lock:
            gone = endpoint.cancelled.is_set()
            old = servers if gone else endpoint.servers
            if not gone:
                container = servers.variants[0].server.container
                endpoint.servers, endpoint.image, endpoint.model = servers, container.image, container.model
                endpoint.moto.endpoint_config_name = config_name
                endpoint.moto.production_variants = endpoint_updates.kept(
                    endpoint.moto.production_variants,
                    endpoint.moto._process_production_variants(config),
                    request,
                )
                _set_status(endpoint.moto, "InService", None)
        if old is not None:
            old.stop()

    def _failed(self, endpoint: _Endpoint, reason: str) -> None:
        with self._lock, self._site.moto_lock:
            if endpoint.cancelled.is_set():
                return
            # A failed update leaves the old servers, and the endpoint in service with its old configuration.
            status = "Failed" if endpoint.servers is None else "InService"
            _set_status(endpoint.moto, status, reason[:REASON_CHARACTERS])
        log.error("endpoint %s: %s", endpoint.name, reason)


def _set_status(moto: Any, status: str, reason: str | None) -> None:
    moto.failure_reason, moto.last_modified_time = reason, datetime.now(UTC)
    moto.endpoint_status = status


def _config(region: str, name: str) -> list[dict[str, Any]]:
    found = sagemaker_backends[ACCOUNT][region].endpoint_configs.get(name)
    if found is None or not found.production_variants:
        raise CannotDeploy(f'Could not find endpoint configuration "{name}".')
    return [dict(one) for one in found.production_variants]


def _state(endpoint: _Endpoint) -> EndpointState:
    server = endpoint.servers.variants[0].server if endpoint.servers else None
    try:
        program = server.program if server else direct.server(endpoint.image).program
    except direct.NoDirectMode:
        program = ""
    return EndpointState(
        name=endpoint.name,
        program=program,
        version=server.version if server else "",
        model=endpoint.model,
        state=str(endpoint.moto.endpoint_status),
        url=server.url if server else None,
        invocations=endpoint.invocations,
    )
