"""A load balancer's opinion of a host: its target group's health check, asked as often as the template says."""

from __future__ import annotations

import http.client
from dataclasses import dataclass

from moto.elbv2.models import elbv2_backends

from stand_in.environment import ACCOUNT
from stand_in.executor.servers import request


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """Of a target group: how often, and how many answers in a row change the opinion."""

    path: str = "/"
    interval_s: float = 30
    timeout_s: float = 5
    up: int = 5
    down: int = 2


class Health:
    """What the load balancer knows of one host; a new one is not healthy."""

    def __init__(self, check: HealthCheck, port: int) -> None:
        self.check = check
        self.healthy = False
        self._port = port
        self._in_a_row = 0

    def look(self) -> bool:
        """Ask once; whether the host is healthy."""
        try:
            answer = request(self._port, "GET", self.check.path, b"", {}, seconds=self.check.timeout_s)
            good = answer.status == 200
        except (OSError, http.client.HTTPException):
            good = False
        self._in_a_row = 0 if good == self.healthy else self._in_a_row + 1
        if self._in_a_row >= (self.check.up if good else self.check.down):
            self.healthy, self._in_a_row = good, 0
        return self.healthy


def of_target_group(region: str, arn: str) -> HealthCheck:
    """As moto keeps it; AWS's defaults where there is no such group."""
    group = elbv2_backends[ACCOUNT][region].target_groups.get(arn)
    if group is None:
        return HealthCheck()
    return HealthCheck(
        path=str(group.health_check_path or "/"),
        interval_s=float(group.health_check_interval_seconds),
        timeout_s=float(group.health_check_timeout_seconds),
        up=int(group.healthy_threshold_count),
        down=int(group.unhealthy_threshold_count),
    )
