"""Rules over how the sentiment endpoint is updated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from settings.endpoint_models import LONGEST_UPDATE_SECONDS, EndpointUpdate
from settings.errors import Problem
from settings.rule import Values, rule

_ENDPOINT = "sentiment.endpoint"
_UPDATE = f"{_ENDPOINT}.update"
FEWEST_FOR_PARTS = 2
SMALLEST_LINEAR_PERCENT = 10
"""SageMaker takes linear steps of 10 to 50 percent of the instances (API reference, TrafficRoutingConfig)."""


@rule(f"{_UPDATE}.traffic", f"{_ENDPOINT}.min_instances", f"{_ENDPOINT}.challengers")
def _instances_for_parts(values: Values, _: Path) -> Iterator[Problem]:
    traffic = values[f"{_UPDATE}.traffic"]
    if traffic == "all-at-once":
        return
    fewest = {f"{_ENDPOINT}.min_instances": values[f"{_ENDPOINT}.min_instances"]} | {
        f"{_ENDPOINT}.challengers[{number}].min_instances": one.min_instances
        for number, one in enumerate(values[f"{_ENDPOINT}.challengers"])
    }
    for key, given in fewest.items():
        if given < FEWEST_FOR_PARTS:
            yield Problem(
                key=key,
                given=given,
                reason=f'With {_UPDATE}.traffic = "{traffic}" a part is half of a variant\'s instances at most, and a '
                "variant may have been scaled in to its minimum.",
                right=f'{FEWEST_FOR_PARTS} or more, or traffic = "all-at-once"',
            )


@rule(f"{_UPDATE}.traffic", f"{_UPDATE}.step_percent")
def _step(values: Values, _: Path) -> Iterator[Problem]:
    traffic, given = values[f"{_UPDATE}.traffic"], values[f"{_UPDATE}.step_percent"]
    smallest = SMALLEST_LINEAR_PERCENT if traffic == "linear" else 1
    if traffic == "all-at-once":
        if given is not None:
            yield Problem(
                key=f"{_UPDATE}.step_percent",
                given=given,
                reason="All traffic moves at once.",
                right='no step_percent, or traffic = "canary" or "linear"',
            )
    elif given is None or given < smallest:
        yield Problem(
            key=f"{_UPDATE}.step_percent",
            given=given,
            reason=f'With traffic = "{traffic}" SageMaker wants to know how much of the fleet a part is.',
            right=f"{smallest} to 50 percent of a variant's instances",
        )


@rule(f"{_UPDATE}.traffic", f"{_UPDATE}.step_percent", f"{_UPDATE}.bake_seconds")
def _longest(values: Values, _: Path) -> Iterator[Problem]:
    given = values[f"{_UPDATE}.bake_seconds"]
    update = EndpointUpdate(
        traffic=values[f"{_UPDATE}.traffic"], step_percent=values[f"{_UPDATE}.step_percent"], bake_seconds=given
    )
    if update.longest_seconds > LONGEST_UPDATE_SECONDS:
        parts = update.waiting_seconds // given
        most = (LONGEST_UPDATE_SECONDS - (update.longest_seconds - update.waiting_seconds)) // parts
        yield Problem(
            key=f"{_UPDATE}.bake_seconds",
            given=given,
            reason=f"{parts} parts with this wait take longer than SageMaker's {LONGEST_UPDATE_SECONDS} seconds.",
            right=f"{most} or less, or a larger step_percent",
        )
