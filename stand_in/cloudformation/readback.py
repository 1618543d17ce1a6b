"""Does every property of a deployed template show in the service? What does not is listed with its reason."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from stand_in.cloudformation.registry import Context, provider_of
from stand_in.session import StandIn

LIST = Path(__file__).with_name("not_read_back.toml")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One declared property of one resource, and what the service holds of it (None: nothing)."""

    logical_id: str
    type: str
    property: str
    declared: Any
    held: Any
    arrived: bool

    def __str__(self) -> str:
        return f"{self.type}.{self.property} of {self.logical_id}: declared {self.declared!r}, held {self.held!r}"


def read_back(stack: Any, context: Context) -> list[dict[str, Any]]:
    """Readings of a stack's resources, as JSON; called in the stand-in."""
    readings = []
    for state in stack.resources.values():
        provider = provider_of(state.type)
        try:
            held = provider.read(context, state.physical_id, state.properties)
        except Exception as error:  # a property that cannot be read has not arrived
            held = {"": repr(error)}
        for name, declared in state.declared.items():
            got = held.get(name, held.get(""))
            readings.append(
                asdict(
                    Reading(
                        logical_id=state.logical_id,
                        type=state.type,
                        property=name,
                        declared=declared,
                        held=got,
                        arrived=contains(got, declared),
                    )
                )
            )
    return readings


def compare(aws: StandIn, stack: str) -> list[Reading]:
    """Readings of a deployed stack, asked of a running stand-in."""
    query = urlencode({"stack": stack, "region": aws.region})
    return [Reading(**item) for item in aws.get(f"/_torchlift/readback?{query}")]


def reasons() -> dict[str, str]:
    """`Type.Property` patterns of not_read_back.toml and why each does not show."""
    return dict(tomllib.loads(LIST.read_text())["not_read_back"])


def unexplained(readings: Iterable[Reading]) -> list[str]:
    """Properties that did not arrive and are not on the list."""
    listed = reasons()
    return [
        str(reading)
        for reading in readings
        if not reading.arrived and not any(fnmatchcase(f"{reading.type}.{reading.property}", one) for one in listed)
    ]


def needless(readings: Iterable[Reading]) -> list[str]:
    """Entries of the list whose properties were deployed and all read back: the list may only shrink.

    What a deployment does not declare says nothing about an entry.
    """
    arrived: dict[str, bool] = {}
    for reading in readings:
        name = f"{reading.type}.{reading.property}"
        arrived[name] = arrived.get(name, True) and reading.arrived
    judged = {one: [shown for name, shown in arrived.items() if fnmatchcase(name, one)] for one in reasons()}
    return [one for one, shown in judged.items() if shown and all(shown)]


def contains(held: Any, declared: Any) -> bool:
    """True when `held` says what `declared` says: it may say more (defaults), in another order, numbers as text."""
    if isinstance(declared, str) and isinstance(held, (Mapping, list)) and declared[:1] in ("{", "["):
        parsed = _json(declared)
        return parsed is not None and contains(held, parsed)
    if isinstance(declared, Mapping):
        if isinstance(held, str):
            held = _json(held)
        return isinstance(held, Mapping) and all(contains(held.get(key), item) for key, item in declared.items())
    if isinstance(declared, list):
        if not isinstance(held, list):
            # Policies: one action may stand without its list.
            return len(declared) == 1 and contains(held, declared[0])
        left = list(held)
        for item in declared:
            match = next((one for one in left if contains(one, item)), None)
            if match is None:
                return False
            left.remove(match)
        return True
    if isinstance(held, list):
        return len(held) == 1 and contains(held[0], declared)
    return _text(held) == _text(declared)


def _json(text: str) -> Any:
    """A document that stands as text on one of the two sides; None when it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value in ("True", "False"):
        return value.lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
