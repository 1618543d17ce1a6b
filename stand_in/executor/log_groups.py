"""Writes what a process printed into a log group of the stand-in, as CloudWatch Logs would hold it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from moto.logs.exceptions import ResourceNotFoundException
from moto.logs.models import logs_backends


class NoSuchLogGroup(LookupError):
    """The log group does not exist, and nothing of ours may create one."""


def require(account: str, region: str, group: str) -> None:
    """Raise NoSuchLogGroup unless the group is there."""
    if group not in logs_backends[account][region].groups:
        raise NoSuchLogGroup(f"log group {group} does not exist, and the role may not create it")


def write(
    lock: AbstractContextManager[Any], account: str, region: str, group: str, stream: str, lines: Sequence[str]
) -> None:
    """Append `lines` to a stream, which is made when it is new; `lock` is moto's. Raises NoSuchLogGroup."""
    require(account, region, group)
    backend = logs_backends[account][region]
    now = int(time.time() * 1000)
    with lock:
        try:
            backend.ensure_log_stream(group, stream)
            events = [{"timestamp": now, "message": line} for line in lines if line]
            if events:
                backend.put_log_events(group, stream, events)
        except ResourceNotFoundException as error:  # deleted meanwhile
            raise NoSuchLogGroup(f"log group {group} does not exist, and the role may not create it") from error
