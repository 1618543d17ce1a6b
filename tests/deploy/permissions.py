"""What roles may do and never did: role, action and resource by names that stay the same in each deployment."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stand_in.access.policies import Need, applies

LIST = Path(__file__).with_name("spare_permissions.toml")
WORKLOADS = ("sentiment", "question-answering", "text-encoding")
"""Whose deploy tests hold the list."""
MADE_UP = (
    (re.compile(r"\b(sg|subnet|vpc)-[0-9a-f]+"), r"\1"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"[0-9a-f]{64}"), "<asset>"),
    (re.compile(r"[0-9a-f]{24}(?=[A-Z])"), ""),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?:-[0-9a-f]{8})?(?![0-9a-f])"), "<job>"),
    (re.compile(r"(?<=[0-9a-fA-F]{8})-[0-9a-z]{12}(?![0-9a-z])"), ""),
    (re.compile(r"(?<=[a-z])(?:[0-9a-f]{8}|[0-9A-F]{8})(?![0-9a-zA-Z])"), ""),
)
"""What CloudFormation, the CDK and the hashes of jobs put into names."""


@dataclass(frozen=True, order=True)
class Permission:
    """One action on one resource that a statement of a role allows."""

    role: str
    action: str
    resource: str

    def __str__(self) -> str:
        return f"{self.role}: {self.action} on {self.resource}"


@dataclass(frozen=True, kw_only=True)
class Spare:
    """An entry of the list: permissions that nothing here uses, and why they are granted all the same."""

    roles: str
    actions: tuple[str, ...]
    resources: str
    reason: str
    workloads: tuple[str, ...] = WORKLOADS
    """In whose cycle they are granted and not used."""
    sometimes: bool = False
    """Whether a cycle may happen to use them: then their use does not make the entry needless."""

    def covers(self, permission: Permission) -> bool:
        return (
            permission.action in self.actions
            and fnmatchcase(permission.role, self.roles)
            and fnmatchcase(permission.resource, self.resources)
        )


def check(access: Mapping[str, Any], workload: str, *, calls: int, roles: Sequence[str]) -> None:
    """Hold what the stand-in recorded of a workload's whole cycle against the policies and the list.

    :param calls: how many different ones there were at least
    :param roles: ends of the names of roles that called something
    """
    # The bootstrap's roles are not ours.
    ours = {name: statements for name, statements in access["roles"].items() if not name.startswith("cdk-")}
    access = {**access, "roles": ours}
    print(f"{len(access['calls'])} different calls of {len(ours)} roles")
    callers = {_name(call["role"]) for call in access["calls"]}
    assert len(access["calls"]) >= calls
    assert [role for role in roles if not any(caller.endswith(role) for caller in callers)] == []
    assert refused(access) == []
    spare, entries = unused(access), [one for one in spare_list() if workload in one.workloads]
    assert unexplained(spare, entries) == []
    assert needless(spare, entries) == []


def spare_list() -> list[Spare]:
    """The written list."""
    rows = tomllib.loads(LIST.read_text())["spare"]
    return [
        Spare(
            roles=row.get("roles", "*"),
            actions=tuple(row["actions"]),
            resources=row.get("resources", "*"),
            reason=row["reason"],
            workloads=tuple(row.get("workloads", WORKLOADS)),
            sometimes=row.get("sometimes", False),
        )
        for row in rows
    ]


def unused(access: Mapping[str, Any]) -> set[Permission]:
    """Permissions that no call of a role of the same name used; `access` is the stand-in's page."""
    granted, used = set(), set()
    for role, statements in access["roles"].items():
        calls = [call for call in access["calls"] if call["role"] == role]
        for permission, statement, resource in _permissions(role, statements):
            granted.add(permission)
            alone = {**statement, "Action": permission.action, "Resource": resource}
            if any(applies(alone, _need(call)) for call in calls):
                used.add(permission)
    return granted - used


def unexplained(permissions: set[Permission], entries: Sequence[Spare]) -> list[str]:
    """Unused permissions that no entry gives a reason for."""
    return [str(one) for one in sorted(permissions) if not any(entry.covers(one) for entry in entries)]


def needless(permissions: set[Permission], entries: Sequence[Spare]) -> list[str]:
    """Entries, or single actions of them, that speak of nothing unused: used by now, or no longer granted."""
    return [
        f"{entry.roles}: {action} on {entry.resources}"
        for entry in entries
        if not entry.sometimes
        for action in entry.actions
        if not any(one.action == action and entry.covers(one) for one in permissions)
    ]


def refused(access: Mapping[str, Any]) -> list[str]:
    """Calls that the policies of their role did not allow."""
    return [
        f"{call['role']}: {call['action']} on {call['resource']} {call['context']} {call['problem']}".strip()
        for call in access["calls"]
        if not call["allowed"]
    ]


def _permissions(
    role: str, statements: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Permission, Mapping[str, Any], str]]:
    for statement in statements:
        if statement["Effect"] != "Allow":
            continue
        for action in _listed(statement["Action"]):
            for resource in _listed(statement["Resource"]):
                yield Permission(_name(role), action, stable(resource)), statement, resource


def _name(role: str) -> str:
    """A role's logical id, or the role where CloudFormation did not name it."""
    return stable(role.split("-")[-2] if role.count("-") >= 2 else role)


def stable(name: str) -> str:
    """A logical id or ARN without what is made up anew in each account or with each change."""
    name = re.sub(r"^arn:aws:(\w+):[\w-]*:\d*:", r"\1:", name)
    for pattern, instead in MADE_UP:
        name = pattern.sub(instead, name)
    return name


def _need(call: Mapping[str, Any]) -> Need:
    return Need(action=call["action"], resource=call["resource"], context=call["context"])


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
