"""A template without what a change of code changes: job hashes, asset hashes, and the logical ids that carry them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

ASSET = re.compile(r"\b[0-9a-f]{64}\b")
LOGICAL_ID = re.compile(r"\b([A-Z][A-Za-z0-9]*?)[0-9a-f]{16}[0-9a-f]{8}([A-Z][A-Za-z0-9]*?)[0-9A-F]{8}\b")
CONFIGURATION_ID = re.compile(r"\b([A-Z][A-Za-z0-9]*?)[0-9a-f]{16}[0-9A-F]{8}\b")
"""Of a resource that is new with each configuration of an endpoint."""
JOB_AND_DETAILS = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}-[0-9a-f]{8}(?![0-9a-f])")
JOB = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")


def normalized(template: Mapping[str, Any]) -> Any:
    """The template with placeholders; lists of ids are sorted again, because their order followed the hashes."""
    text = json.dumps(template)
    for pattern, placeholder in (
        (ASSET, "<asset>"),
        (LOGICAL_ID, r"\1<job>\2"),
        (CONFIGURATION_ID, r"\1<configuration>"),
        (JOB_AND_DETAILS, "<job>-<details>"),
        (JOB, "<job>"),
    ):
        text = pattern.sub(placeholder, text)
    document = json.loads(text)
    assert len(document["Resources"]) == len(template["Resources"]), "two logical ids became one"
    for resource in document["Resources"].values():
        if isinstance(resource.get("DependsOn"), list):
            resource["DependsOn"].sort()
    return document
