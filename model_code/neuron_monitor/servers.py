"""The servers' /metrics, and what changed between two looks at them."""

from __future__ import annotations

import http.client
import re
from collections import defaultdict
from collections.abc import Mapping

SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? ([0-9.eE+-]+)")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
STAGES = ("prepare", "queue", "inference", "total")
SECONDS = 5.0

Totals = dict[str, float]


def scrape(port: int, *, token: str) -> Totals | None:
    """The totals of a server on 127.0.0.1, or None when it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        text = response.read().decode("utf-8")
        return totals(text) if response.status == 200 else None
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return None
    finally:
        connection.close()


def totals(text: str) -> Totals:
    """Sums over the series of each metric that is published; `torchlift_responses_total` by kind of status."""
    found: Totals = defaultdict(float)
    for line in text.splitlines():
        match = SAMPLE.fullmatch(line)
        if match is None:
            continue
        name, labels, value = match[1], dict(LABEL.findall(match[2] or "")), float(match[3])
        if name == "torchlift_responses_total":
            name = _kind(labels)
        elif "stage" in labels:
            name = f"{name}:{labels['stage']}"
        found[name] += value
    return found


def _kind(labels: Mapping[str, str]) -> str:
    """Requests of health checks are no traffic."""
    if labels["path"] in ("/healthz", "/readyz", "/ping", "/metrics", "/models"):
        return "operations"
    if labels["status"] == "503":
        return "refused"
    return "failed" if labels["status"].startswith("5") else "answered"


def values(before: Totals, now: Totals) -> dict[str, float]:
    """What is published of one server, for the time between two looks.

    QueueRows and PendingRows are of this moment; BatchRows and the Milliseconds are means, absent without traffic.
    """

    def more(name: str) -> float:
        # A server that was started again counts from 0.
        was = before.get(name, 0.0)
        return now.get(name, 0.0) - (was if was <= now.get(name, 0.0) else 0.0)

    found = {
        "QueueRows": now.get("torchlift_queue_rows", 0.0),
        "PendingRows": now.get("torchlift_pending_rows", 0.0),
        "Requests": more("answered") + more("refused") + more("failed"),
        "Refused": more("refused"),
        "Failed": more("failed"),
    }
    if batches := more("torchlift_batch_rows_count"):
        found["BatchRows"] = more("torchlift_batch_rows_sum") / batches
    for stage in STAGES:
        if inputs := more(f"torchlift_stage_seconds_count:{stage}"):
            mean = more(f"torchlift_stage_seconds_sum:{stage}") / inputs
            found[f"{stage.capitalize()}Milliseconds"] = mean * 1000
    return found
