"""The regions that Torchlift supports: a short written list, so that a wrong one is refused before a deploy starts."""

from __future__ import annotations

from typing import Final

ZONES: Final[dict[str, tuple[str, ...]]] = {
    "us-east-1": ("a", "b", "c", "d", "e", "f"),
    "us-east-2": ("a", "b", "c"),
    "us-west-2": ("a", "b", "c", "d"),
    "ca-central-1": ("a", "b", "d"),
    "eu-central-1": ("a", "b", "c"),
    "eu-north-1": ("a", "b", "c"),
    "eu-west-1": ("a", "b", "c"),
    "eu-west-2": ("a", "b", "c"),
    "ap-northeast-1": ("a", "c", "d"),
    "ap-northeast-2": ("a", "b", "c", "d"),
    "ap-south-1": ("a", "b", "c"),
    "ap-southeast-1": ("a", "b", "c"),
    "ap-southeast-2": ("a", "b", "c"),
}
"""Zone letters per region (EC2 user guide, regions and zones). Which of them an account sees may differ."""

DOMAIN: Final = "amazonaws.com"


def zones_of(region: str) -> tuple[str, ...]:
    """Zone names of a supported region, such as `us-west-2a`."""
    return tuple(f"{region}{letter}" for letter in ZONES[region])


def is_other_partition(region: str) -> bool:
    """True for China, GovCloud and the isolated partitions, where ARNs and image accounts differ."""
    return region.startswith(("cn-", "us-gov-", "us-iso", "eu-isoe", "eusc-"))
