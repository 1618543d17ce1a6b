"""A rollback leaves alone what the update did not touch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stand_in.conftest import Stacks, parameter
from tests.stand_in.test_operations import log_group, taken, value_of

__all__ = ["taken"]  # the fixture


@pytest.mark.parametrize("updates_before", [0, 1, 2])
def test_a_rollback_leaves_untouched_resources_alone(stacks: Stacks, taken: str, updates_before: int) -> None:
    """Whatever their last event was: their own creation, or an update long ago."""
    resources: dict[str, Any] = {
        "Never": parameter("n"),
        "Once": parameter("0"),
        "Replaced": log_group(stacks.name("0")),
    }
    stacks.create("s", resources)
    for number in range(updates_before):
        resources |= {"Once": parameter(f"{number + 1}"), "Replaced": log_group(stacks.name(f"{number + 1}"))}
        assert stacks.update("s", resources) == "UPDATE_COMPLETE"
    held = stacks.resources("s")
    assert stacks.update("s", resources | {"Bad": log_group(taken)}) == "UPDATE_ROLLBACK_COMPLETE"
    assert stacks.resources("s") == held
    assert value_of(stacks, held["Never"]) == "n" and value_of(stacks, held["Once"]) == str(updates_before)
    groups = stacks.aws.client("logs").describe_log_groups(logGroupNamePrefix=held["Replaced"])["logGroups"]
    assert len(groups) == 1
    assert stacks.delete("s") == "DELETE_COMPLETE"
