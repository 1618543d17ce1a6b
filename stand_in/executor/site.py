"""Where the stand-in is: its address, its folders, and the environment that its children get."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stand_in.clients import Clients
from stand_in.environment import NOBODY, isolated_environment
from stand_in.executor.state import Registry


@dataclass(frozen=True, kw_only=True)
class Site:
    """What every part of the executor needs to know."""

    base_url: str
    state_dir: Path
    repo_root: Path
    registry: Registry = field(default_factory=Registry)
    moto_lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by whoever reads or changes moto's objects: requests to moto (see `locked`) and the executor."""
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _clients: Clients = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_clients", Clients(self.base_url))

    def locked(self, moto: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """moto's WSGI application, answering one request at a time and never while the executor changes its objects."""

        def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            with self.moto_lock:
                return list(moto(environ, start_response))

        return application

    def environment(self, region: str, *, role: str) -> dict[str, str]:
        """Variables for a child that may reach the stand-in and nothing else, with the credentials of its role.

        :param role: name or ARN; an empty one, of a program that AWS would give no role, may do nothing
        """
        home = self.state_dir / "home"
        home.mkdir(parents=True, exist_ok=True)
        return isolated_environment(
            base_url=self.base_url, region=region, root=self.repo_root, home=home, role=role or NOBODY
        )

    def client(self, service: str, region: str, *, role: str) -> Any:
        """A boto3 client for what is done with a role, as in `environment`; shared by threads."""
        return self._clients.get(service, region, role=role or NOBODY)

    def own_client(self, service: str, region: str) -> Any:
        """A boto3 client for what the stand-in does itself, which needs no permission; shared by threads."""
        return self._clients.get(service, region)

    def log_path(self, name: str) -> Path:
        """A new log file's path: numbered, so that a list of the folder tells the order."""
        with self._lock:
            return self.state_dir / "logs" / f"{next(self._numbers):03d}-{name}.log"
