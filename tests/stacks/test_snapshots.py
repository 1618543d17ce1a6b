"""Readable snapshots of every template: what a change of this repository would change in an account.

Update them with `python -m pytest tests/stacks/test_snapshots.py --snapshot-update`, and read the difference.
"""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.stacks.normalized import normalized
from tests.stacks.synthesis import DEPLOYMENTS, Synthesized

STACKS = ("Foundation", "Training", "Graviton", "MultiModel", "Inferentia")


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_template(name: str, stack: str, deployments: dict[str, Synthesized], snapshot: SnapshotAssertion) -> None:
    template = normalized(deployments[name].templates[stack])
    assert template == snapshot.use_extension(JSONSnapshotExtension)


def test_every_stack_has_a_snapshot(deployment: Synthesized) -> None:
    assert sorted(deployment.templates) == sorted(STACKS)
