"""What neuron-monitor prints, one JSON document a line: AWS Neuron documentation, "Neuron Monitor User Guide"."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

# The hosts give each server the tag core-<number> (NEURON_PROCESS_TAG).
TAG = re.compile(r"core-([0-9]+)")
FAILED = ("completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input", "failed_to_queue")

Values = dict[str, float]


class DocumentError(ValueError):
    """A line that is no document of neuron-monitor."""


def per_core(line: str) -> dict[int, Values]:
    """{core: values} of one document; a group that reports an error is left out. Raises DocumentError.

    CoreUtilization in percent, DeviceMemory in bytes, ExecutionErrors a count of the document's period.
    """
    cores: dict[int, Values] = defaultdict(dict)
    try:
        for runtime in json.loads(line)["neuron_runtime_data"] or ():
            report = runtime["report"]
            # Every process reports all cores of its devices, and 0 for those that another one has.
            for core, used in _group(report, "neuroncore_counters", "neuroncores_in_use"):
                known = cores[int(core)].get("CoreUtilization", 0.0)
                cores[int(core)]["CoreUtilization"] = max(known, float(used["neuroncore_utilization"]))
            for core, parts in _group(
                report, "memory_used", "neuron_runtime_used_bytes", "usage_breakdown", "neuroncore_memory_usage"
            ):
                known = cores[int(core)].get("DeviceMemory", 0.0)
                cores[int(core)]["DeviceMemory"] = known + float(sum(parts.values()))
            tag = TAG.fullmatch(str(runtime.get("neuron_runtime_tag")))
            summary = dict(_group(report, "execution_stats", "execution_summary"))
            if tag and summary:
                cores[int(tag[1])]["ExecutionErrors"] = float(sum(summary.get(name, 0) for name in FAILED))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DocumentError(f"not a document of neuron-monitor: {error!r}: {line[:200]!r}") from error
    return dict(cores)


def _group(report: dict[str, Any], name: str, *path: str) -> Iterator[tuple[str, Any]]:
    """The items of a part of a metric group; none when the group is absent, or could not be read."""
    found = report.get(name)
    if not found or found.get("error"):
        return
    for step in path:
        found = found.get(step) or {}
    yield from found.items()
