"""What a rule's target receives: Input, InputPath and InputTransformer, as EventBridge applies them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

MISSING = object()
_VARIABLE = re.compile(r"<([A-Za-z0-9_.-]+)>")
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]|\['([^']+)'\]")


class InputRefused(ValueError):
    """The target's input cannot be made: a wrong path, or a template whose result is no JSON."""


def target_input(target: Mapping[str, Any], event: Mapping[str, Any], *, rule_name: str, rule_arn: str) -> Any:
    """The payload (a JSON value) for `target` of a rule that matched `event`. Raises InputRefused."""
    if target.get("Input"):
        return _parsed(target["Input"])
    if target.get("InputPath"):
        found = at_path(event, target["InputPath"])
        return None if found is MISSING else found
    if target.get("InputTransformer"):
        return _transformed(target["InputTransformer"], event, rule_name, rule_arn)
    return event


def at_path(event: Any, path: str) -> Any:
    """The value at a JSON path of names and indexes (`$.detail.list[0]`), or MISSING."""
    if not path.startswith("$"):
        raise InputRefused(f"'{path}' is no JSON path: it does not begin with $")
    value, position = event, 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise InputRefused(f"JSON path '{path}' is not supported")
        position = step.end()
        name = step.group(1) or step.group(3)
        if name is not None:
            value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
        else:
            index = int(step.group(2))
            value = value[index] if isinstance(value, list) and index < len(value) else MISSING
        if value is MISSING:
            return MISSING
    return value


def _transformed(transformer: Mapping[str, Any], event: Mapping[str, Any], rule_name: str, rule_arn: str) -> Any:
    values: dict[str, Any] = {name: at_path(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}
    values |= {
        "aws.events.rule-name": rule_name,
        "aws.events.rule-arn": rule_arn,
        "aws.events.event.ingestion-time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        # The event without its detail, and as a whole.
        "aws.events.event": {name: value for name, value in event.items() if name != "detail"},
        "aws.events.event.json": event,
    }
    template: str = transformer["InputTemplate"]
    quoted = _inside_quotes(template)

    def replaced(match: re.Match[str]) -> str:
        if match.group(1) not in values:
            return match.group(0)
        value = values[match.group(1)]
        if value is MISSING:
            return "" if quoted[match.start()] else '""'
        if not quoted[match.start()]:
            return json.dumps(value)
        # Inside quotes a string goes in as it is; anything else as JSON, its quotes escaped.
        text = value if isinstance(value, str) else json.dumps(value)
        return json.dumps(text)[1:-1]

    return _parsed(_VARIABLE.sub(replaced, template))


def _inside_quotes(template: str) -> list[bool]:
    """For each character, whether it stands inside a JSON string."""
    inside, escaped, answer = False, False, []
    for character in template:
        answer.append(inside)
        if escaped:
            escaped = False
        elif inside and character == "\\":
            escaped = True
        elif character == '"':
            inside = not inside
    return answer


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputRefused(f"the target's input is no JSON ({error}): {text[:200]}") from error
