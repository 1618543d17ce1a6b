"""boto3 clients that can only reach the stand-in, whatever the caller's environment says."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

from stand_in.environment import access_key_of_role


@dataclass(frozen=True)
class Clients:
    """One client per service and region, shared by threads: boto3 takes longer to make one than moto to answer it."""

    base_url: str
    _made: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, service: str, region: str, *, role: str = "") -> Any:
        """The client for `service` in `region`, with a role's credentials, by name or ARN, or nobody's."""
        with self._lock:
            if (service, region, role) not in self._made:
                self._made[service, region, role] = self._make(service, region, role)
            return self._made[service, region, role]

    def _make(self, service: str, region: str, role: str) -> Any:
        session = boto3.session.Session(
            aws_access_key_id=access_key_of_role(role), aws_secret_access_key="testing", region_name=region
        )
        # No proxies: not even those of the caller's environment stand between.
        config = Config(
            retries={"max_attempts": 1},
            read_timeout=120,
            max_pool_connections=50,
            ignore_configured_endpoint_urls=True,  # type: ignore[call-arg]  # the stubs lack it
            proxies={},
        )
        return session.client(service, endpoint_url=self.base_url, config=config)  # type: ignore[call-overload]
