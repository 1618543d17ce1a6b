"""Where a model or data come from: a model hub, S3, or a folder of this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from model_code.sources import SourceError, parse_hub

S3 = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<prefix>[^?*]+/)")


@dataclass(frozen=True, kw_only=True)
class Source:
    """`text` is the setting itself; a local folder is relative to the repository's root."""

    kind: Literal["hub", "s3", "local"]
    text: str


def parse_source(text: str) -> Source:
    """Tell the kinds apart. Raises SourceError for a text that is none, or a hub name without a pinned revision."""
    if text.startswith("hf://"):
        parse_hub(text)
        return Source(kind="hub", text=text)
    if text.startswith("s3://"):
        if not S3.fullmatch(text):
            raise SourceError(f"{text!r}: expected s3://bucket/prefix/ with a slash at the end")
        return Source(kind="s3", text=text)
    if "://" in text or not text.strip():
        raise SourceError(f"{text!r}: expected hf://owner/name@revision, s3://bucket/prefix/ or a local folder")
    return Source(kind="local", text=text)
