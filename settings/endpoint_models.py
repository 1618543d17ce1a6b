"""Settings that every SageMaker endpoint may have: how it is updated, what it captures, what it is compared with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from settings.section import PositiveInt, Section, Version

LONGEST_UPDATE_SECONDS = 28_800
"""Longest MaximumExecutionTimeoutInSeconds that SageMaker takes (API reference, BlueGreenUpdatePolicy)."""
NEW_FLEET_SECONDS = 3_600
"""What an update may take besides its waits: starting the new fleet, with download and health check."""
MOST_CHALLENGERS = 4
"""With the main variant five, each with two alarms that roll an update back: SageMaker watches ten at most."""


class EndpointUpdate(Section):
    """How traffic moves from the old fleet to the new one."""

    traffic: Literal["all-at-once", "canary", "linear"] = Field(
        default="all-at-once", description='"all-at-once", "canary" (a part, then the rest) or "linear" (equal parts)'
    )
    step_percent: int | None = Field(
        default=None,
        ge=1,
        le=50,
        description="percent of the instances: canary 1 to 50 (the first part), linear 10 to 50 (each part)",
    )
    bake_seconds: int = Field(default=300, ge=0, le=3600, description="seconds after each part, 0 to 3600")
    auto_rollback: bool = Field(
        default=True, description="true; false for one deploy that repairs what an alarm rings about already"
    )

    @property
    def waiting_seconds(self) -> int:
        """All waits of one update together: linear waits after each part, canary after both."""
        parts = {"all-at-once": 1, "canary": 2}.get(self.traffic) or -(-100 // (self.step_percent or 100))
        return parts * self.bake_seconds

    @property
    def longest_seconds(self) -> int:
        """When SageMaker gives an update up."""
        return NEW_FLEET_SECONDS + self.waiting_seconds


class DataCapture(Section):
    """Requests and answers, kept in the artifact bucket."""

    sampling_percent: int = Field(ge=1, le=100, description="percent of the requests, 1 to 100")
    keep_days: PositiveInt | None = Field(default=None, description="days until captures are deleted; none: never")


class Challenger(Section):
    """Another version behind the same endpoint, for its share of the traffic."""

    # SageMaker's pattern for a variant's name (API reference, ProductionVariant).
    name: str = Field(
        pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$", description="letters, digits and inner hyphens, 1 to 63"
    )
    version: Version = Field(description="a published version: the 16 digits in weights/sentiment/<version>/")
    weight: float = Field(ge=0, description="its share of the traffic, next to the other variants' weights; 0: none")
    instance_type: str | None = Field(default=None, description="an ml. type; default: the endpoint's")
    min_instances: PositiveInt = Field(default=1, description="1 or more (a real-time variant cannot scale to zero)")
    initial_instances: PositiveInt = Field(default=1, description="between min_instances and max_instances")
    max_instances: PositiveInt = Field(default=1, description="min_instances or more")
