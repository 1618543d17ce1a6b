"""The sweep finds whatever is left, of every type that the app uses; and nothing that is gone."""

from __future__ import annotations

import uuid

import pytest

from stand_in.cloudformation import resources as _resources  # noqa: F401 - registers the providers
from stand_in.cloudformation.registry import RESOURCES
from stand_in.session import StandIn
from stand_in.sweep import leftovers, snapshot
from tests.stacks.synthesis import Synthesized
from tests.stand_in.orphans import MAKERS, NOWHERE, PARTS
from tests.support.waiting import eventually


def test_every_type_has_an_orphan(deployments: dict[str, Synthesized]) -> None:
    declared = {
        resource["Type"]
        for deployment in deployments.values()
        for template in deployment.templates.values()
        for resource in template["Resources"].values()
        if not resource["Type"].startswith("Custom::")
    }
    assert len(declared) > 30
    assert declared <= set(RESOURCES)
    assert set(RESOURCES) - set(MAKERS) - set(PARTS) - set(NOWHERE) == set()
    assert set(PARTS.values()) <= set(MAKERS)


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_an_orphan_is_reported(aws: StandIn, kind: str) -> None:
    before = snapshot(aws)
    told, undo = MAKERS[kind](aws, f"orphan-{uuid.uuid4().hex[:8]}")
    try:
        found = leftovers(before, snapshot(aws)).found
        assert any(told in one for one in found), found
    finally:
        undo()
    # What ends in the background, such as an endpoint's server, is given a moment.
    eventually(lambda: leftovers(before, snapshot(aws)).found == [])
    scheduled = leftovers(before, snapshot(aws)).scheduled
    assert bool(scheduled) == (kind == "AWS::KMS::Key")


def test_a_second_of_a_kind_is_not_hidden_by_the_first(aws: StandIn) -> None:
    first, end_first = MAKERS["AWS::Logs::LogGroup"](aws, f"first-{uuid.uuid4().hex[:8]}")
    before = snapshot(aws)
    second, end_second = MAKERS["AWS::Logs::LogGroup"](aws, f"second-{uuid.uuid4().hex[:8]}")
    found = leftovers(before, snapshot(aws)).found
    end_first()
    end_second()
    assert any(second in one for one in found) and not any(first in one for one in found)


def test_an_instance_takes_its_volume_and_interface_along(aws: StandIn) -> None:
    ec2, before = aws.client("ec2"), snapshot(aws)
    instance = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    running = leftovers(before, snapshot(aws)).found
    assert any("/volumes/" in one for one in running) and any("/enis/" in one for one in running)
    ec2.terminate_instances(InstanceIds=[instance])
    eventually(lambda: leftovers(before, snapshot(aws)).found == [])
