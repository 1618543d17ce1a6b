"""Every resource type: what a template says arrives, changes in place arrive, deletion leaves nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from stand_in.cloudformation import resources as _resources  # noqa: F401 - registers the providers
from stand_in.cloudformation.readback import Reading, compare, unexplained
from stand_in.cloudformation.registry import RESOURCES, provider_of
from stand_in.session import StandIn
from stand_in.sweep import Leftovers, leftovers, snapshot
from tests.stand_in import samples
from tests.stand_in.conftest import Stacks
from tests.stand_in.functions import upload

CUSTOM = "AWS::CloudFormation::CustomResource"
HELD_NOWHERE = {"AWS::CDK::Metadata"}
"""No service holds it, and our app has none: so the list of what is not read back does not mention it."""
STACK_TAGS = {"owner": "stack", "own": "stack", "x": "stack"}
TAGS = [{"Key": key, "Value": value} for key, value in STACK_TAGS.items()]


@dataclass
class Life:
    """What was seen of a stack that has one resource of each type."""

    created: list[Reading]
    updated: list[Reading]
    first_ids: dict[str, str]
    second_ids: dict[str, str]
    first_attributes: dict[str, str]
    second_attributes: dict[str, str]
    tags: dict[str, dict[str, str]]
    left: Leftovers


@pytest.fixture(scope="module")
def life(aws: StandIn) -> Iterator[Life]:
    stacks = Stacks(aws)
    bucket = upload(stacks, samples.HANDLER)
    unique = stacks.unique
    start = snapshot(aws)
    try:
        outputs = {name: {"Value": samples.att(name, attribute)} for name, attribute in samples.ATTRIBUTES.items()}
        made = stacks.create("all", samples.before(bucket, unique), Tags=TAGS, Outputs=outputs)
        assert made == "CREATE_COMPLETE", _why(stacks)
        created, first_ids = compare(aws, stacks.name("all")), stacks.resources("all")
        tags, attributes = _tags(stacks), stacks.outputs("all")
        changed = stacks.update("all", samples.after(bucket, unique), Tags=TAGS, Outputs=outputs)
        assert changed == "UPDATE_COMPLETE", _why(stacks)
        updated, second_ids = compare(aws, stacks.name("all")), stacks.resources("all")
        second_attributes = stacks.outputs("all")
        gone = stacks.delete("all")
        assert gone == "DELETE_COMPLETE", _why(stacks)
        left = leftovers(start, snapshot(aws))
    finally:
        stacks.clean()
        s3 = aws.client("s3")
        s3.delete_object(Bucket=bucket, Key="code.zip")
        s3.delete_bucket(Bucket=bucket)
    yield Life(
        created=created,
        updated=updated,
        first_ids=first_ids,
        second_ids=second_ids,
        first_attributes=attributes,
        second_attributes=second_attributes,
        tags=tags,
        left=left,
    )


def _why(stacks: Stacks) -> list[str]:
    told = stacks.api.describe_stack_events(StackName=stacks.name("all"))["StackEvents"]
    return [
        f"{one['LogicalResourceId']}: {one.get('ResourceStatusReason')}"
        for one in told
        if "FAILED" in one["ResourceStatus"]
    ]


def _tags(stacks: Stacks) -> dict[str, dict[str, str]]:
    """Tags of resources, asked of the services, by logical id."""
    aws, ids = stacks.aws, stacks.resources("all")
    ec2 = aws.client("ec2")
    found: dict[str, dict[str, str]] = {}
    for name, identifier in ids.items():
        filters = [{"Name": "resource-id", "Values": [identifier]}]
        held = ec2.describe_tags(Filters=filters)["Tags"]
        if held:
            found[name] = {tag["Key"]: tag["Value"] for tag in held}
    lists: dict[str, Any] = {
        "Topic": aws.client("sns").list_tags_for_resource(ResourceArn=ids["Topic"])["Tags"],
        "Model": aws.client("sagemaker").list_tags(ResourceArn=ids["Model"])["Tags"],
        "Served": aws.client("sagemaker").list_tags(ResourceArn=ids["Served"])["Tags"],
        "Role": aws.client("iam").list_role_tags(RoleName=ids["Role"])["Tags"],
        "Bucket": aws.client("s3").get_bucket_tagging(Bucket=ids["Bucket"])["TagSet"],
        "Parameter": aws.client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId=ids["Parameter"])[
            "TagList"
        ],
        "Scaled": [
            tag
            for tag in aws.client("autoscaling").describe_tags(
                Filters=[{"Name": "auto-scaling-group", "Values": [ids["Scaled"]]}]
            )["Tags"]
            if tag["PropagateAtLaunch"]
        ],
    }
    return found | {name: {tag["Key"]: tag["Value"] for tag in held} for name, held in lists.items()}


def _sample_types() -> dict[str, str]:
    """{type: logical id of its main sample}, a custom resource under the type that answers for it."""
    found: dict[str, str] = {}
    for name, resource in samples.before("bucket", "unique").items():
        kind = resource["Type"]
        kind = CUSTOM if kind.startswith("Custom::") else kind
        if kind not in found or (name in samples.CHANGES and found[kind] not in samples.CHANGES):
            found[kind] = name
    return found


def _of(readings: list[Reading], kind: str) -> list[Reading]:
    kinds = (kind, "Custom::Signal") if kind == CUSTOM else (kind,)
    name = _sample_types()[kind]
    return [one for one in readings if one.type in kinds and one.logical_id == name]


def test_every_type_has_a_sample() -> None:
    assert set(_sample_types()) == set(RESOURCES)


def test_a_provider_knows_only_what_a_sample_shows_to_arrive() -> None:
    """A property that no test has seen arrive is refused rather than dropped."""
    sampled: dict[str, set[str]] = defaultdict(set)
    for resource in samples.before("bucket", "unique").values():
        sampled[resource["Type"]] |= set(resource.get("Properties", {}))
    for change, values in samples.CHANGES.items():
        kind = samples.before("bucket", "unique")[change]["Type"]
        sampled[kind] |= {path.split(".")[0] for path in values}
    unseen = {kind: provider.properties - sampled[kind] for kind, provider in RESOURCES.items()}
    assert {kind: names for kind, names in unseen.items() if names} == {}


def test_everything_arrives(life: Life) -> None:
    for readings in (life.created, life.updated):
        assert unexplained([one for one in readings if one.type not in HELD_NOWHERE]) == []


@pytest.mark.parametrize("kind", sorted(RESOURCES))
def test_what_the_template_says_arrives(life: Life, kind: str) -> None:
    assert unexplained(_of(life.created, kind)) == [] or kind in HELD_NOWHERE
    declared = samples.before("bucket", "unique")[_sample_types()[kind]].get("Properties", {})
    assert {one.property for one in _of(life.created, kind)} == set(declared)  # and was looked at


@pytest.mark.parametrize("kind", sorted(RESOURCES))
def test_a_change_in_place_arrives(life: Life, kind: str) -> None:
    name, provider = _sample_types()[kind], provider_of(kind)
    updatable = provider.properties - provider.replace_on
    assert (name in samples.CHANGES) == (bool(updatable) and kind not in samples.NEVER)
    assert unexplained(_of(life.updated, kind)) == [] or kind in HELD_NOWHERE
    assert life.first_ids[name] == life.second_ids[name]


@pytest.mark.parametrize("name", sorted(samples.CHANGES))
def test_what_an_update_changed_was_another_before(life: Life, name: str) -> None:
    """Otherwise a provider that ignores updates, or reads what the template says, would pass."""
    first = {one.property: one.held for one in life.created if one.logical_id == name}
    second = {one.property: one.held for one in life.updated if one.logical_id == name}
    for path, value in samples.CHANGES[name].items():
        key = path.split(".")[0]
        if value is not None and key != "Artifacts":
            assert first.get(key) != second[key], key


def test_attributes_stay_with_an_update_in_place(life: Life) -> None:
    assert life.second_attributes == life.first_attributes
    assert all(life.first_attributes.values())


def test_the_stacks_tags_are_passed_on(life: Life) -> None:
    assert {"Vpc", "Subnet", "Group", "Template", "Instance", "Topic", "Model", "Bucket"} <= set(life.tags)
    for name, held in life.tags.items():
        assert held["owner"] == "stack", name
        assert "Name" in held or name not in samples.CHANGES, name
    assert life.tags["Vpc"]["own"] == "template"  # the template's own tags win


def test_deletion_leaves_nothing(life: Life) -> None:
    assert life.left.found == []
    # Two keys, which AWS keeps for the days that the template says.
    assert len(life.left.scheduled) == 2
