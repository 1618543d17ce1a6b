"""Rules over where a deployment lives: region, network, logs, budget."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

from settings import regions
from settings.errors import Problem
from settings.rule import Values, nearest, rule

RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""What PutRetentionPolicy takes (CloudWatch Logs API reference)."""


@rule("deployment.region")
def _region(values: Values, _: Path) -> Iterator[Problem]:
    region = values["deployment.region"]
    if region in regions.ZONES:
        return
    reason = (
        "It is in another AWS partition, where ARNs and image accounts differ; Torchlift supports the aws partition."
        if regions.is_other_partition(region)
        else "It is not in the list of regions (settings/regions.py): the base images may be missing there."
    )
    close = nearest(region, tuple(regions.ZONES), "")
    right = f"{close}, or another of: " if close else "one of: "
    yield Problem(key="deployment.region", given=region, reason=reason, right=right + ", ".join(regions.ZONES))


@rule("deployment.region", "network.zones")
def _zones(values: Values, _: Path) -> Iterator[Problem]:
    region, zones = values["deployment.region"], values["network.zones"]
    if region not in regions.ZONES:
        return
    known = regions.zones_of(region)
    for zone in zones:
        if zone not in known:
            yield Problem(
                key="network.zones",
                given=zone,
                reason=f"It is no zone of {region}.",
                right="some of " + ", ".join(known),
            )
    if len(set(zones)) != len(zones):
        yield Problem(key="network.zones", given=list(zones), reason="A zone stands twice.", right="each zone once")


@rule("network.zones", "network.existing_vpc")
def _subnets(values: Values, _: Path) -> Iterator[Problem]:
    vpc = values["network.existing_vpc"]
    if vpc is not None and len(vpc.private_subnet_ids) != len(values["network.zones"]):
        yield Problem(
            key="network.existing_vpc.private_subnet_ids",
            given=list(vpc.private_subnet_ids),
            reason=f"There are {len(values['network.zones'])} zones and {len(vpc.private_subnet_ids)} subnets.",
            right="one private subnet per zone, in the same order",
        )
    if vpc is not None and len(set(vpc.private_subnet_ids)) != len(vpc.private_subnet_ids):
        yield Problem(
            key="network.existing_vpc.private_subnet_ids",
            given=list(vpc.private_subnet_ids),
            reason="A subnet stands twice, and a subnet lies in one zone.",
            right="each subnet once",
        )


def _cidr(key: str) -> None:
    @rule(key)
    def check(values: Values, _: Path) -> Iterator[Problem]:
        given = values[key]
        right = "a private range of a VPC, /16 to /24, such as 10.42.0.0/16"
        try:
            network = ipaddress.IPv4Network(given)
        except ValueError as error:
            reason = (
                "It names an address inside a range, not where the range starts"
                if "host bits" in str(error)
                else str(error)
            )
            yield Problem(key=key, given=given, reason=f"{reason.rstrip('.')}.", right=right)
            return
        if not network.is_private:
            yield Problem(key=key, given=given, reason="Its addresses belong to the internet.", right=right)
        # Each zone gets a sixteenth of our own VPC's range, and EC2 knows no subnet smaller than /28.
        if key == "network.cidr" and not 16 <= network.prefixlen <= 24:
            yield Problem(
                key=key, given=given, reason="A VPC and its subnets would be too large or too small.", right=right
            )


for _key in ("network.cidr", "network.existing_vpc.cidr"):
    _cidr(_key)


@rule("logs.retention_days")
def _retention(values: Values, _: Path) -> Iterator[Problem]:
    given = values["logs.retention_days"]
    if given not in RETENTION_DAYS:
        right = min(RETENTION_DAYS, key=lambda days: abs(days - given))
        yield Problem(
            key="logs.retention_days", given=given, reason="CloudWatch Logs does not know it.", right=str(right)
        )


@rule("budget.monthly_usd", "budget.email")
def _budget(values: Values, _: Path) -> Iterator[Problem]:
    if values["budget.monthly_usd"] is not None and values["budget.email"] is None:
        yield Problem(
            key="budget.email", given=None, reason="A budget without an address tells nobody.", right="a mail address"
        )
    if values["budget.email"] is not None and values["budget.monthly_usd"] is None:
        yield Problem(
            key="budget.monthly_usd",
            given=None,
            reason="Without an amount there is no budget.",
            right="whole US dollars a month",
        )
