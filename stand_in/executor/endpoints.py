"""SageMaker endpoints: real servers on loopback behind the endpoints that moto keeps."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from moto.sagemaker.models import sagemaker_backends

from stand_in.environment import ACCOUNT
from stand_in.executor import data_capture, direct, endpoint_servers, endpoint_updates, invocations
from stand_in.executor.endpoint_fleet import Fleet
from stand_in.executor.endpoint_interfaces import Interfaces
from stand_in.executor.endpoint_servers import CannotDeploy
from stand_in.executor.modes import Mode
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
    """One endpoint from its creation to its deletion; a second one of the same name is another object.

    During an update `incoming` answers its `share` of the invocations.
    """

    region: str
    name: str
    moto: Any
    fleet: Fleet | None = None
    incoming: Fleet | None = None
    share: float = 0.0
    invocations: int = 0
    image: str = ""
    model: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def answering(self) -> Fleet | None:
        """The fleet for one invocation."""
        return self.incoming if self.incoming and random.random() < self.share else self.fleet


class Endpoints:
    """Every endpoint of every region. What takes time happens in threads of its own."""

    def __init__(self, site: Site, mode: Mode) -> None:
        self._site = site
        self._mode = mode
        self._runtime = invocations.Runtime(site)
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
            fleet, endpoint.fleet = endpoint.fleet, None
        if fleet is not None:
            self._in_background(self._end, fleet)

    def invoke(self, region: str, name: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer InvokeEndpoint."""
        with self._lock:
            endpoint = self._endpoints.get((region, name))
            fleet = endpoint.answering() if endpoint else None
            if endpoint is None or fleet is None:
                return invocations.not_found(name)
            endpoint.invocations += 1
            fleet.__enter__()
        try:
            return self._runtime.answer(fleet, region=region, name=name, headers=headers, body=body)
        finally:
            fleet.__exit__()

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
            running = [one.fleet for one in self._endpoints.values() if one.fleet]
            self._endpoints.clear()
            threads = list(self._threads)
        together([*(partial(one.stop, drain_s=0) for one in running), partial(wait_for, threads)])

    def _in_background(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, name="endpoint", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()

    def _end(self, fleet: Fleet) -> None:
        fleet.stop()
        self._runtime.flush()

    def _deploy(self, endpoint: _Endpoint, config_name: str, request: Mapping[str, Any]) -> None:
        try:
            fleet = self._start(endpoint, config_name, request)
            self._take_over(endpoint, config_name, request, fleet)
        except CannotDeploy as error:
            self._failed(endpoint, str(error))
        except Exception as error:  # whatever it is, the endpoint must not stay "Creating"
            log.exception("endpoint %s", endpoint.name)
            self._failed(endpoint, f"{type(error).__name__}: {error}")

    def _start(self, endpoint: _Endpoint, config_name: str, request: Mapping[str, Any]) -> Fleet:
        """The fleet of a configuration, once all its servers answer. Raises CannotDeploy."""
        with self._site.moto_lock:
            config = _config(endpoint.region, config_name)
            variants = [dict(one) for one in config.production_variants]
        container = endpoint_servers.container_of(endpoint.region, variants[0])
        if endpoint.fleet is None:
            endpoint.image, endpoint.model = container.image, container.model
        interfaces = Interfaces(self._site, region=endpoint.region, endpoint=endpoint.name, variants=variants)
        try:
            running = endpoint_servers.start(
                self._site,
                region=endpoint.region,
                endpoint=endpoint.name,
                variants=variants,
                cancelled=endpoint.cancelled,
                program_of=self._mode.program,
            )
        except BaseException:
            interfaces.release()
            raise
        old = endpoint.fleet
        return Fleet(
            self._site,
            variants=running,
            shown=endpoint_updates.kept(endpoint.moto.production_variants, config, request),
            capture=endpoint_updates.kept_capture(old.capture if old else {}, config, request),
            interfaces=interfaces,
        )

    def _take_over(self, endpoint: _Endpoint, config_name: str, request: Mapping[str, Any], fleet: Fleet) -> None:
        """Move the traffic part by part, then end the old fleet; or, when an alarm rings, the new one."""
        ringing = self._shift(endpoint, request, fleet)
        if ringing:
            self._end(fleet)
            self._failed(endpoint, f"{endpoint_updates.ROLLED_BACK}: alarms in ALARM state: {', '.join(ringing)}")
            return
        with self._lock, self._site.moto_lock:
            gone = endpoint.cancelled.is_set()
            old = fleet if gone else endpoint.fleet
            if not gone:
                container = fleet.variants[0].server.container
                endpoint.fleet, endpoint.image, endpoint.model = fleet, container.image, container.model
                endpoint.incoming = None
                endpoint.moto.endpoint_config_name = config_name
                endpoint.moto.production_variants = fleet.shown
                endpoint.moto.data_capture_config = data_capture.summary(fleet.capture)
                _set_status(endpoint.moto, "InService", None)
        if old is not None:
            self._end(old)

    def _shift(self, endpoint: _Endpoint, request: Mapping[str, Any], fleet: Fleet) -> list[str]:
        """Give the new fleet its parts of the traffic; returns the alarms that ring, and then it has none."""
        if endpoint.fleet is None:
            return []
        instances = min(int(one.get("DesiredInstanceCount", 1)) for one in fleet.shown)
        parts, bake_s = endpoint_updates.shares(request, instances=instances)
        ringing = endpoint_updates.alarms_ringing(endpoint.region, request)
        for share in parts:
            if ringing or endpoint.cancelled.is_set():
                break
            with self._lock:
                endpoint.incoming, endpoint.share = fleet, share
            ringing = endpoint_updates.watch(endpoint.region, request, seconds=bake_s, cancelled=endpoint.cancelled)
        if ringing or endpoint.cancelled.is_set():
            with self._lock:
                endpoint.incoming = None
        return ringing

    def _failed(self, endpoint: _Endpoint, reason: str) -> None:
        with self._lock, self._site.moto_lock:
            if endpoint.cancelled.is_set():
                return
            # A failed update leaves the old fleet, and the endpoint in service with its old configuration.
            status = "Failed" if endpoint.fleet is None else "InService"
            _set_status(endpoint.moto, status, reason[:REASON_CHARACTERS])
        log.error("endpoint %s: %s", endpoint.name, reason)


def _set_status(moto: Any, status: str, reason: str | None) -> None:
    moto.failure_reason, moto.last_modified_time = reason, datetime.now(UTC)
    moto.endpoint_status = status


def _config(region: str, name: str) -> Any:
    found = sagemaker_backends[ACCOUNT][region].endpoint_configs.get(name)
    if found is None or not found.production_variants:
        raise CannotDeploy(f'Could not find endpoint configuration "{name}".')
    return found


def _state(endpoint: _Endpoint) -> EndpointState:
    server = endpoint.fleet.variants[0].server if endpoint.fleet else None
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
