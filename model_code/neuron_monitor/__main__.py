"""neuron-monitor -c config.json | python -m model_code.neuron_monitor: metrics of this host, a line a core and minute.

Each line is in CloudWatch's embedded metric format: the log driver that takes it to CloudWatch Logs makes metrics of
it, in the namespace Torchlift/QuestionAnswering, for each NeuronCore and for the deployment as a whole.

Environment: TORCHLIFT_DEPLOYMENT, TORCHLIFT_INSTANCE_ID, TORCHLIFT_CORES (servers on ports 8081, 8082, …),
TORCHLIFT_TOKEN_FILE when the servers want a token, TORCHLIFT_MONITOR_SECONDS (60).

Without neuron-monitor (an empty input) it says so once and publishes what the servers count. When neuron-monitor ends
after it has begun, so does this: the unit starts both again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from model_code.neuron_monitor import servers
from model_code.neuron_monitor.documents import DocumentError, Values, per_core

NAMESPACE = "Torchlift/QuestionAnswering"
BASE_PORT = 8081  # model_code/serving/neuron_cores.py
UNITS = {
    "CoreUtilization": "Percent",
    "DeviceMemory": "Bytes",
    "ExecutionErrors": "Count",
    "ServerUp": "Count",
    "QueueRows": "Count",
    "PendingRows": "Count",
    "Requests": "Count",
    "Refused": "Count",
    "Failed": "Count",
    "BatchRows": "Count",
    "PrepareMilliseconds": "Milliseconds",
    "QueueMilliseconds": "Milliseconds",
    "InferenceMilliseconds": "Milliseconds",
    "TotalMilliseconds": "Milliseconds",
}


@dataclass
class Documents:
    """What neuron-monitor said since the last look; filled by a thread."""

    seen: int = 0
    ended: bool = False
    _sums: dict[int, Values] = field(default_factory=dict)
    _counts: dict[int, Values] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, source: TextIO) -> None:
        """Take every line until the end."""
        for line in source:
            try:
                self.add(per_core(line))
            except DocumentError as error:
                print(f"neuron-monitor: {error}", file=sys.stderr, flush=True)
        self.ended = True

    def add(self, cores: Mapping[int, Values]) -> None:
        """One document."""
        with self._lock:
            self.seen += 1
            for core, found in cores.items():
                sums, counts = self._sums.setdefault(core, {}), self._counts.setdefault(core, {})
                for name, value in found.items():
                    sums[name] = sums.get(name, 0.0) + value
                    counts[name] = counts.get(name, 0.0) + 1

    def take(self) -> dict[int, Values]:
        """Means of the documents since the last call; errors are added up."""
        with self._lock:
            sums, counts = self._sums, self._counts
            self._sums, self._counts = {}, {}
        return {
            core: {
                name: value if name == "ExecutionErrors" else value / counts[core][name] for name, value in of.items()
            }
            for core, of in sums.items()
        }


def line(core: int, found: Mapping[str, float], *, deployment: str, instance: str, at: float) -> str:
    """One line in the embedded metric format. `at` is in seconds since 1970."""
    dimensions = {"Deployment": deployment, "InstanceId": instance, "NeuronCore": str(core)}
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [["Deployment"], list(dimensions)],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in found],
    }
    head = {"_aws": {"Timestamp": int(at * 1000), "CloudWatchMetrics": [directive]}}
    return json.dumps({**head, **dimensions, **{name: round(value, 3) for name, value in found.items()}})


class Monitor:
    """Looks at all servers of the host."""

    def __init__(self, *, ports: list[int], token: str) -> None:
        self._ports = ports
        self._token = token
        self._before: dict[int, servers.Totals] = {}

    def look(self, documents: Mapping[int, Values]) -> dict[int, Values]:
        """{core: values} since the last look; of a server that does not answer there is ServerUp 0."""
        found: dict[int, Values] = {}
        for core, port in enumerate(self._ports):
            now = servers.scrape(port, token=self._token)
            found[core] = {**documents.get(core, {}), "ServerUp": 0.0 if now is None else 1.0}
            if now is not None:
                # Counts from before the first look are of no known time.
                found[core] |= servers.values(self._before.get(core, now), now)
                self._before[core] = now
        return found


def main() -> int:
    """Run until neuron-monitor ends; returns the exit status."""
    deployment, instance = os.environ["TORCHLIFT_DEPLOYMENT"], os.environ["TORCHLIFT_INSTANCE_ID"]
    seconds = float(os.environ.get("TORCHLIFT_MONITOR_SECONDS") or 60)
    token_file = os.environ.get("TORCHLIFT_TOKEN_FILE")
    token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else ""
    ports = [BASE_PORT + core for core in range(int(os.environ["TORCHLIFT_CORES"]))]
    documents = Documents()
    threading.Thread(target=documents.read, args=(sys.stdin,), daemon=True).start()
    monitor = Monitor(ports=ports, token=token)
    said = False
    while True:
        time.sleep(seconds)
        if documents.ended and documents.seen:
            print("neuron-monitor has ended", file=sys.stderr, flush=True)
            return 1
        if documents.ended and not said:
            said = True
            print("there is no neuron-monitor: no utilization and no memory of the cores", file=sys.stderr, flush=True)
        for core, found in monitor.look(documents.take()).items():
            print(line(core, found, deployment=deployment, instance=instance, at=time.time()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
