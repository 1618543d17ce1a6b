"""Rules over how endpoints are updated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from settings.endpoint_models import LONGEST_UPDATE_SECONDS, EndpointUpdate
from settings.errors import Problem
from settings.rule import Values, rule

FEWEST_FOR_PARTS = 2
SMALLEST_LINEAR_PERCENT = 10
"""SageMaker takes linear steps of 10 to 50 percent of the instances (API reference, TrafficRoutingConfig)."""


def _register(endpoint: str, *challengers: str) -> None:
    """The rules of one endpoint's section; `challengers`: the key of its list of them, when it may have any."""
    update = f"{endpoint}.update"

    @rule(f"{update}.traffic", f"{endpoint}.min_instances", *challengers)
    def _instances_for_parts(values: Values, _: Path) -> Iterator[Problem]:
        traffic = values[f"{update}.traffic"]
        if traffic == "all-at-once":
            return
        fewest = {f"{endpoint}.min_instances": values[f"{endpoint}.min_instances"]} | {
            f"{key}[{number}].min_instances": one.min_instances
            for key in challengers
            for number, one in enumerate(values[key])
        }
        for key, given in fewest.items():
            if given < FEWEST_FOR_PARTS:
                yield Problem(
                    key=key,
                    given=given,
                    reason=f'With {update}.traffic = "{traffic}" a part is half of a variant\'s instances at most, and '
                    "a variant may have been scaled in to its minimum.",
                    right=f'{FEWEST_FOR_PARTS} or more, or traffic = "all-at-once"',
                )

    @rule(f"{update}.traffic", f"{update}.step_percent")
    def _step(values: Values, _: Path) -> Iterator[Problem]:
        traffic, given = values[f"{update}.traffic"], values[f"{update}.step_percent"]
        smallest = SMALLEST_LINEAR_PERCENT if traffic == "linear" else 1
        if traffic == "all-at-once":
            if given is not None:
                yield Problem(
                    key=f"{update}.step_percent",
                    given=given,
                    reason="All traffic moves at once.",
                    right='no step_percent, or traffic = "canary" or "linear"',
                )
        elif given is None or given < smallest:
            yield Problem(
                key=f"{update}.step_percent",
                given=given,
                reason=f'With traffic = "{traffic}" SageMaker wants to know how much of the fleet a part is.',
                right=f"{smallest} to 50 percent of a variant's instances",
            )

    @rule(f"{update}.traffic", f"{update}.step_percent", f"{update}.bake_seconds")
    def _longest(values: Values, _: Path) -> Iterator[Problem]:
        given = values[f"{update}.bake_seconds"]
        moved = EndpointUpdate(
            traffic=values[f"{update}.traffic"], step_percent=values[f"{update}.step_percent"], bake_seconds=given
        )
        if moved.longest_seconds > LONGEST_UPDATE_SECONDS:
            parts = moved.waiting_seconds // given
            most = (LONGEST_UPDATE_SECONDS - (moved.longest_seconds - moved.waiting_seconds)) // parts
            yield Problem(
                key=f"{update}.bake_seconds",
                given=given,
                reason=f"{parts} parts with this wait take longer than SageMaker's {LONGEST_UPDATE_SECONDS} seconds.",
                right=f"{most} or less, or a larger step_percent",
            )


_register("sentiment.endpoint", "sentiment.endpoint.challengers")
_register("text_encoding.endpoint")
