"""What rules of several sections check alike: machines, counts, and where models and data come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from model_code.sources import SourceError
from settings.errors import Problem
from settings.models import MAX_DEADLINE_MINUTES
from settings.rule import Values, rule
from settings.sources import parse_source


def zones(key: str, given: Sequence[str] | None, known: Sequence[str]) -> Iterator[Problem]:
    """Zones of a machine: the network must have a subnet in each."""
    for zone in given or ():
        if zone not in known:
            yield Problem(
                key=key,
                given=zone,
                reason="The network has no subnet there.",
                right="some of network.zones: " + ", ".join(known),
            )


def deadline(key: str, given: int) -> Iterator[Problem]:
    """Minutes that a job on an instance may take."""
    if given > MAX_DEADLINE_MINUTES:
        yield Problem(
            key=key,
            given=given,
            reason="CloudFormation waits 12 hours at most, and the job must signal before that.",
            right=f"{MAX_DEADLINE_MINUTES} or less",
        )


def machine_image(key: str, ami_id: str | None, ami_parameter: str | None) -> Iterator[Problem]:
    """Exactly one of the two names a machine's image."""
    given = [ami_id, ami_parameter]
    if given.count(None) != 1:
        yield Problem(
            key=key,
            given=[item for item in given if item] or None,
            reason="The instance needs exactly one machine image.",
            right="either ami_id (pinned) or ami_parameter (a public SSM parameter)",
        )


def machine_rules(section: str) -> None:
    """Register the rules over a section's machine: its zones, its deadline, its image."""

    @rule("network.zones", f"{section}.zones")
    def check_zones(values: Values, _: Path) -> Iterator[Problem]:
        yield from zones(f"{section}.zones", values[f"{section}.zones"], values["network.zones"])

    @rule(f"{section}.deadline_minutes")
    def check_deadline(values: Values, _: Path) -> Iterator[Problem]:
        yield from deadline(f"{section}.deadline_minutes", values[f"{section}.deadline_minutes"])

    @rule(f"{section}.ami_id", f"{section}.ami_parameter")
    def check_image(values: Values, _: Path) -> Iterator[Problem]:
        yield from machine_image(f"{section}.ami_id", values[f"{section}.ami_id"], values[f"{section}.ami_parameter"])


def root_volume_rule(section: str, *, least_gib: int, reason: str) -> None:
    """Register the rule over the GiB that a machine's disk must have."""

    @rule(f"{section}.root_volume_gib")
    def check(values: Values, _: Path) -> Iterator[Problem]:
        given = values[f"{section}.root_volume_gib"]
        if given < least_gib:
            yield Problem(key=f"{section}.root_volume_gib", given=given, reason=reason, right=f"{least_gib} or more")


def counts(key: str, low: int, first: int, high: int) -> Iterator[Problem]:
    """Instances of a variant; `key` is the section's."""
    if low > high:
        yield Problem(key=f"{key}.max_instances", given=high, reason=f"min_instances is {low}.", right=f"{low} or more")
    elif not low <= first <= high:
        yield Problem(
            key=f"{key}.initial_instances",
            given=first,
            reason="An autoscaled variant starts within its limits.",
            right=f"{low} to {high}",
        )


def source_rule(key: str, *, hub: bool = True) -> None:
    """Register the rule over a model's or data's source.

    :param hub: whether it may lie on the model hub
    """
    kinds = ("hf://owner/name@<commit id>, " if hub else "") + "s3://bucket/prefix/ or a local folder"

    @rule(key)
    def check(values: Values, root: Path) -> Iterator[Problem]:
        given = values[key]
        if given is None:
            return
        try:
            source = parse_source(given)
        except SourceError as error:
            reason = f"{str(error).partition(': ')[2].capitalize()}."
            yield Problem(key=key, given=given, reason=reason, right=kinds)
            return
        if source.kind == "hub" and not hub:
            yield Problem(key=key, given=given, reason="It is not mirrored from the model hub.", right=kinds)
        if source.kind == "local" and not _is_folder(root / given):
            hint = " (the demo prepares it: make demo)" if given.startswith("build/demo/") else ""
            yield Problem(
                key=key,
                given=given,
                reason="There is no such folder.",
                right=f"an existing folder, absolute or from the top of the repository{hint}",
            )
        elif source.kind == "local" and root.resolve().is_relative_to((root / given).resolve()):
            yield Problem(
                key=key,
                given=given,
                reason="It holds the whole repository, all of which would be uploaded.",
                right="a folder with nothing but the model or the data",
            )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long for the file system
        return False
