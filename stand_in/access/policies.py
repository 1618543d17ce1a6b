"""Whether a role's policies allow an action on a resource: IAM's evaluation, for what our policies use.

An explicit Deny wins, then an Allow is needed. A condition operator or key outside of what is known here is an error,
not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Statement = Mapping[str, Any]


class UnknownCondition(ValueError):
    """A condition that this evaluation does not know; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """One permission that a call needs; `context` are the condition keys that the service would supply."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, given: wanted == given,
    "StringNotEquals": lambda wanted, given: wanted == given,
    "StringLike": lambda wanted, given: like(wanted, given),
    "ArnLike": lambda wanted, given: like(wanted, given),
    "ArnEquals": lambda wanted, given: like(wanted, given),
    "Bool": lambda wanted, given: wanted.lower() == given.lower(),
}


def allowed(statements: Sequence[Statement], need: Need) -> bool:
    """The verdict of all statements of a role together. Raises UnknownCondition."""
    effects = {statement["Effect"] for statement in statements if applies(statement, need)}
    return "Allow" in effects and "Deny" not in effects


def applies(statement: Statement, need: Need) -> bool:
    """Whether a statement speaks of this action on this resource in this context. Raises UnknownCondition."""
    return (
        _names(statement, "Action", need.action.lower(), lower=True)
        and _names(statement, "Resource", need.resource)
        and all(_holds(*condition, need.context) for condition in _conditions(statement))
    )


def actions(statement: Statement) -> list[str]:
    """The actions that a statement names."""
    return _listed(statement.get("Action", []))


def like(pattern: str, text: str) -> bool:
    """IAM's wildcards: `*` is any text, also none, and `?` one character."""
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    special = {"*": ".*", "?": "."}
    return re.compile("".join(special.get(character, re.escape(character)) for character in pattern), re.DOTALL)


def _names(statement: Statement, key: str, text: str, *, lower: bool = False) -> bool:
    """Whether `Action` or `Resource` (or, reversed, `NotAction` or `NotResource`) covers the text."""
    if f"Not{key}" in statement:
        return not _names({key: statement[f"Not{key}"]}, key, text, lower=lower)
    patterns = _listed(statement.get(key, []))
    return any(like(pattern.lower() if lower else pattern, text) for pattern in patterns)


def _conditions(statement: Statement) -> Iterator[tuple[str, str, list[str]]]:
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            yield operator, key, [str(value) for value in _listed(values)]


def _holds(operator: str, key: str, wanted: Sequence[str], context: Mapping[str, str]) -> bool:
    name = operator.removesuffix("IfExists")
    if name not in OPERATORS:
        raise UnknownCondition(f"the condition operator {operator} is not known to stand_in/access/policies.py")
    given = next((value for known, value in context.items() if known.lower() == key.lower()), None)
    if given is None:
        # A key that the request does not have meets no condition, except a negated one.
        return operator.endswith("IfExists") or "Not" in name
    met = any(OPERATORS[name](value, given) for value in wanted)
    return not met if "Not" in name else met


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
