"""What the stand-in holds, service by service, and what is left of it when everything should be gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stand_in.session import StandIn

Inventory = dict[str, str]
"""{"service/region/collection/name": state}; the state is empty unless it matters."""

IGNORED: Mapping[str, str] = {
    "sts/assumed_roles": "sessions, which end by themselves",
    "cloudwatch/metric_data": "data points, which AWS lets expire",
    "cloudwatch/aws_metric_data": "data points, which AWS lets expire",
    "logs/queries": "history of queries",
    "ssm/_default_parameters": "AWS's own public parameters",
    "events/event_buses/default": "AWS's own bus; rules are listed one by one",
    "iam/account_aliases": "not a resource of a stack",
    "s3/pagination_tokens": "state of list calls",
    "ec2/tags": "tags, which go with what carries them",
    "ecr/registry_scanning_configuration": "a setting that every registry has",
}
"""Collections of moto that hold no resources of an account, each with the reason."""
PASSING = (":iam::aws:policy/", "/access_keys/ASIA")
"""In the names of policies that AWS brings into every account, and of credentials that expire within the hour."""
GONE = frozenset({"terminated", "deleted", "deleting", "DELETED"})
"""States that AWS shows for a while after the end."""
SCHEDULED = "PendingDeletion"
SERVICES = (
    "applicationautoscaling",
    "autoscaling",
    "awslambda",
    "budgets",
    "cloudwatch",
    "codebuild",
    "ec2",
    "ecr",
    "elbv2",
    "events",
    "iam",
    "kms",
    "logs",
    "s3",
    "sagemaker",
    "secretsmanager",
    "sns",
    "sqs",
    "ssm",
    "sts",
)
"""Opened before the first look, so that what AWS puts into every account counts as there before."""
SIMPLE = (str, int, float, bool, bytes, type(None))


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """What is left: `found` should be empty, `scheduled` is deleted by AWS after a waiting period (KMS keys)."""

    found: list[str]
    scheduled: list[str]


def snapshot(aws: StandIn) -> Inventory:
    """What the running stand-in holds."""
    return dict(aws.get(f"/_torchlift/inventory?region={aws.region}"))


def leftovers(before: Inventory, after: Inventory) -> Leftovers:
    """What is in `after` and was not in `before`."""
    changed = {name: state for name, state in after.items() if name not in before}
    # What is part of something that is new, or gone, says nothing more.
    new = {name: state for name, state in changed.items() if state not in GONE and not _within(name, changed)}
    return Leftovers(
        found=sorted(name for name, state in new.items() if state != SCHEDULED),
        scheduled=sorted(name for name, state in new.items() if state == SCHEDULED),
    )


def _within(name: str, others: Inventory) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:length]) in others for length in range(1, len(parts)))


def inventory(account: str, region: str) -> Inventory:
    """Everything in every service that has been used; called in the stand-in.

    Walks moto's own collections instead of a list of list-calls: what nobody thought of is found too.
    """
    from moto.backends import get_backend
    from moto.core.base_backend import BackendDict

    for service in SERVICES:
        accounts: Any = get_backend(service)[account]
        # moto opens us-east-1 by itself: the home of AWS's global services.
        for name in {region, "us-east-1"} if region in accounts.regions else {"aws"}:
            _ = accounts[name]
    # AWS makes this key when the first encrypted volume is made, and keeps it.
    get_backend("ec2")[account][region]._create_default_encryption_key()
    found: Inventory = {}
    for backends in list(BackendDict._instances):
        for region_name, backend in list(backends.get(account, {}).items()):
            service = backends.service_name
            for collection, content in _collections(backend):
                if f"{service}/{collection}" in IGNORED:
                    continue
                for name, thing in _things_and_parts(content):
                    full = f"{service}/{region_name}/{collection}/{name}"
                    if f"{service}/{collection}/{name}" not in IGNORED and not any(part in full for part in PASSING):
                        found[full] = _state(thing)
    return found


def _collections(owner: Any) -> Iterator[tuple[str, Any]]:
    """What a backend keeps, also where it has an object to keep it in, as for Lambda's functions."""
    from moto.core.base_backend import BaseBackend
    from moto.utilities.tagging_service import TaggingService

    for name, content in list(vars(owner).items()):
        if isinstance(content, (dict, list, set)):
            yield name, content
        # Tags, which moto's utilities keep, go with what carries them.
        elif type(content).__module__.startswith("moto.") and not isinstance(content, (BaseBackend, TaggingService)):
            for inner, held in list(vars(content).items()):
                yield f"{name}/{inner}", held


def _things_and_parts(content: Any) -> Iterator[tuple[str, Any]]:
    """Things, and what a thing keeps in dictionaries of its own, such as the rules of an event bus."""
    for name, thing in _things(content):
        yield name, thing
        for attribute, parts in list(getattr(thing, "__dict__", {}).items()):
            if isinstance(parts, dict) and all(type(part).__module__.startswith("moto.") for part in parts.values()):
                for part_name, part in _things(parts):
                    yield f"{name}/{attribute}/{part_name}", part


def _things(content: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Named things in nested dictionaries and lists."""
    if isinstance(content, dict):
        for key, value in list(content.items()):
            name = f"{prefix}{key}"
            if isinstance(value, (dict, list)) and value and not _is_description(value):
                yield from _things(value, f"{name}/")
            elif value or not isinstance(value, (dict, list)):
                yield name, value
    elif isinstance(content, (list, set)):
        for index, value in enumerate(list(content)):
            if isinstance(value, (dict, list)) and not _is_description(value):
                yield from _things(value, f"{prefix}{index}/")
            else:
                yield f"{prefix}{_name(value, index)}", value


def _is_description(value: Any) -> bool:
    """A dictionary of plain values describes one thing; it does not hold things."""
    return isinstance(value, dict) and any(isinstance(item, SIMPLE) for item in value.values())


def _name(value: Any, index: int) -> str:
    if isinstance(value, SIMPLE):
        return str(value)
    for attribute in ("arn", "id", "name", "filterName"):
        found = value.get(attribute) if isinstance(value, dict) else getattr(value, attribute, None)
        if isinstance(found, str):
            return found
    return str(index)


def _state(thing: Any) -> str:
    instances = getattr(thing, "instances", None)
    if isinstance(instances, list) and instances:  # a reservation is gone when its instances are
        states = {_state(instance) for instance in instances}
        return states.pop() if len(states) == 1 else ""
    for attribute in ("key_state", "state", "status"):
        found = thing.get(attribute) if isinstance(thing, dict) else getattr(thing, attribute, None)
        if isinstance(found, str):
            return found
    state = getattr(thing, "_state", None)
    return str(getattr(state, "name", "") or "")
