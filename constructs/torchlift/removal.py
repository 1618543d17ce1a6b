"""What happens to data when its resource goes."""

from __future__ import annotations

from aws_cdk import RemovalPolicy


def removal_policy(*, ephemeral: bool) -> RemovalPolicy:
    """Gone with the stack, or kept; but what a failed creation made holds no data and always goes."""
    return RemovalPolicy.DESTROY if ephemeral else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
