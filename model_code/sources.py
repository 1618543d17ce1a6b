"""Where a model or a data set comes from: the form `hf://owner/name[/config]@revision`."""

from __future__ import annotations

import re
from dataclasses import dataclass

HUB = re.compile(r"hf://(?P<name>[\w.-]+/[\w.-]+)(?:/(?P<config>[\w.-]+))?@(?P<revision>[\w.-]+)", flags=re.ASCII)


class SourceError(ValueError):
    """A source that does not say exactly what to take."""


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """A hub repository at a pinned revision; `config` names a subset of a data set."""

    name: str
    revision: str
    config: str | None = None


def parse_hub(source: str) -> HubSource:
    """Parse `hf://owner/name[/config]@revision`. Raises SourceError, also for a moving revision (`main`)."""
    match = HUB.fullmatch(source)
    if match is None:
        raise SourceError(f"{source!r}: expected hf://owner/name@revision (or hf://owner/name/config@revision)")
    if match["revision"] in ("main", "master", "latest", "HEAD"):
        raise SourceError(f"{source!r}: {match['revision']!r} moves; give a commit id or a tag")
    return HubSource(name=match["name"], revision=match["revision"], config=match["config"])
