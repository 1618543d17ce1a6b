"""Every call that a role makes, with the verdict of its policies at that moment, which the stand-in holds to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moto.autoscaling.models import autoscaling_backends
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends
from moto.sts.models import sts_backends

from stand_in.access.needs import UnknownCall, needs
from stand_in.access.operations import Request
from stand_in.access.policies import Need, Statement, UnknownCondition, allowed
from stand_in.access.refusals import refusal
from stand_in.environment import ACCOUNT, ADMINISTRATOR, role_of_access_key
from stand_in.hooks import Answer

BOOTSTRAP = "cdk-"
"""Before the names of the bootstrap's roles, which the CDK CLI assumes and an account's administrator answers for."""


class Record:
    """What was called."""

    def __init__(self, lock: threading.RLock, *, stack_of: Callable[[str, str], str | None]) -> None:
        """Take moto's lock, and what tells the id of a stack of a name and a region."""
        self._moto_lock = lock
        self._stack_of = stack_of
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self._roles: dict[str, list[Statement]] = {}

    def see(
        self, environ: Mapping[str, Any], read_body: Callable[[], bytes], headers: Mapping[str, str]
    ) -> Answer | None:
        """Note a request, unless an administrator made it; returns AWS's refusal of one that is not allowed."""
        key, region, service = _signed(headers.get("Authorization", ""))
        role, query = role_of_access_key(key) or _role_of_session(key), environ.get("QUERY_STRING", "")
        if key == ADMINISTRATOR or role.startswith(BOOTSTRAP):
            return None
        request = Request(
            service=service,
            method=environ["REQUEST_METHOD"],
            path=environ["PATH_INFO"],
            query=query,
            headers=headers,
            # Objects are not read: what S3 does is told by the path, but for the list of what is to be deleted.
            body=read_body() if service != "s3" or query.startswith("delete") else b"",
        )
        if role:
            with self._moto_lock:
                statements = statements_of(role)
                verdicts = self._verdicts(request, region, statements)
        else:
            problem = f"no role has the access key {key}" if key else "it is not signed"
            unknown = Need(action=f"{service or '?'}:?", resource=request.path)
            role, statements, verdicts = key or "unsigned", [], [(unknown, False, problem)]
        with self._lock:
            self._remember(role, statements)
            for need, verdict, problem in verdicts:
                self._note(role, need, verdict, problem)
        for need, verdict, problem in verdicts:
            if not verdict:
                read_body()  # or it would be taken for the connection's next request
                return refusal(request, _message(role, need, problem))
        return None

    def _verdicts(self, request: Request, region: str, statements: Sequence[Statement]) -> list[tuple[Need, bool, str]]:
        """What the request needs, whether the statements allow it, and what is wrong besides."""
        try:
            found = needs(
                request,
                region=region,
                account=ACCOUNT,
                key_of=_key_of(region),
                group_of=_group_of,
                stack_of=lambda name: self._stack_of(name, region),
            )
            return [(need, allowed(statements, need), "") for need in found]
        except (UnknownCall, UnknownCondition) as error:
            return [(Need(action=f"{request.service}:?", resource=request.path), False, str(error))]

    def _note(self, role: str, need: Need, verdict: bool, problem: str) -> None:
        key = (role, need.action, need.resource, json.dumps(need.context, sort_keys=True))
        row = self._calls.setdefault(
            key,
            {
                "role": role,
                "action": need.action,
                "resource": need.resource,
                "context": dict(need.context),
                "allowed": True,
                "problem": "",
                "times": 0,
            },
        )
        row["times"] += 1
        row["allowed"] = row["allowed"] and verdict
        row["problem"] = row["problem"] or problem

    def page(self, _: str) -> dict[str, Any]:
        """`{"calls": […], "roles": {name: statements}}`.

        Of the roles that called anything, or were there when this was asked: with every statement they ever had, for
        an update may take one away that a call has used.
        """
        with self._moto_lock:
            present = {role.name: statements_of(role.name) for role in _backend().roles.values()}
        with self._lock:
            for role, statements in present.items():
                self._remember(role, statements)
            return {"calls": list(self._calls.values()), "roles": dict(self._roles)}

    def _remember(self, role: str, statements: list[Statement]) -> None:
        known = self._roles.setdefault(role, [])
        known += [statement for statement in statements if statement not in known]


def _signed(authorization: str) -> tuple[str, str, str]:
    """(access key id, region, service) of a signature of version 4; empty where there is none."""
    scope = authorization.partition("Credential=")[2].split(",")[0].strip().split("/")
    return (scope[0], scope[2], scope[3]) if len(scope) >= 5 else ("", "", "")


def _role_of_session(access_key: str) -> str:
    """The role that was assumed for this key; empty when there is none."""
    session = sts_backends[ACCOUNT]["aws"].get_assumed_role_from_access_key(access_key)
    return str(session.role_arn).rpartition("/")[2] if session is not None else ""


def _message(role: str, need: Need, problem: str) -> str:
    who = f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/stand-in"
    why = problem or f"no identity-based policy allows the {need.action} action"
    return f"User: {who} is not authorized to perform: {need.action} on resource: {need.resource} because {why}"


def statements_of(role: str) -> list[Statement]:
    """All statements of a role's policies, as moto has them; none for a role that is not there."""
    found = next((one for one in _backend().roles.values() if one.name == role), None)
    if found is None:
        return []
    managed = [
        version.document
        for policy in found.managed_policies.values()
        for version in policy.versions
        if version.version_id == policy.default_version_id
    ]
    result: list[Statement] = []
    for text in [*found.policies.values(), *managed]:
        document = json.loads(text) if isinstance(text, str) else text
        statements = document["Statement"]
        result += statements if isinstance(statements, list) else [statements]
    return result


def role_of_profile(profile: str) -> str:
    """The role of an instance profile, by name or ARN; empty when there is none."""
    name = profile.rpartition("/")[2]
    for one in _backend().instance_profiles.values():
        if one.name == name and one.roles:
            return str(one.roles[0].name)
    return ""


def _backend() -> Any:
    return iam_backends[ACCOUNT]["aws"]


def _key_of(region: str) -> Callable[[str, str], str | None]:
    def find(service: str, name: str) -> str | None:
        if service == "sns":
            topic = sns_backends[ACCOUNT][region].topics.get(name)
            return _own_key(str(topic.kms_master_key_id)) if topic is not None else None
        bucket = s3_backends[ACCOUNT]["aws"].buckets.get(name)
        rules = (bucket.encryption or {}).get("Rule", []) if bucket is not None else []
        rules = rules if isinstance(rules, list) else [rules]
        keys = [rule.get("ApplyServerSideEncryptionByDefault", {}).get("KMSMasterKeyID", "") for rule in rules]
        return _own_key(str(keys[0])) if keys else None

    return find


def _own_key(key: str) -> str | None:
    """The key's ARN when it is a customer's: AWS's own keys need no permission."""
    return key if key.startswith("arn:") and ":key/" in key else None


def _group_of(instance_id: str) -> str:
    for backend in autoscaling_backends[ACCOUNT].values():
        for name, group in backend.autoscaling_groups.items():
            if any(state.instance.id == instance_id for state in group.instance_states):
                return str(name)
    return "<no group>"
