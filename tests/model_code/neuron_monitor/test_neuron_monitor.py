"""What the monitor makes of neuron-monitor's documents and of the servers' metrics."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from model_code.neuron_monitor.__main__ import NAMESPACE, UNITS, Documents, Monitor, line
from model_code.neuron_monitor.documents import DocumentError, per_core
from model_code.neuron_monitor.servers import totals, values
from model_code.serving.metrics import STAGES, Metrics
from tests.hosts.proxy import fake_core

ROOT = Path(__file__).resolve().parents[3]


def runtime(core: int, *, utilization: float, memory: int, failed: int = 0, error: str = "") -> dict[str, Any]:
    """One process's part of a document, in the shape of the Neuron Monitor User Guide; it sees both cores."""
    both = {str(other): {"neuroncore_utilization": utilization if other == core else 0.0} for other in (0, 1)}
    parts = {"constants": 0, "model_code": 0, "model_shared_scratchpad": 0, "runtime_memory": 0, "tensors": 0}
    used = {str(other): {**parts, "constants": memory if other == core else 0} for other in (0, 1)}
    return {
        "pid": 100 + core,
        "neuron_runtime_tag": f"core-{core}",
        "error": "",
        "report": {
            "neuroncore_counters": {"period": 30.0, "neuroncores_in_use": both, "error": error},
            "execution_stats": {
                "period": 30.0,
                "error_summary": {"generic": 0, "numerical": 0, "hardware": 0},
                "execution_summary": {"completed": 50, "completed_with_err": failed, "timed_out": failed},
                "latency_stats": {"total_latency": None, "device_latency": None},
                "error": "",
            },
            "memory_used": {
                "period": 30.0,
                "neuron_runtime_used_bytes": {
                    "host": 1, "neuron_device": memory,
                    "usage_breakdown": {"host": {}, "neuroncore_memory_usage": used},
                },
                "loaded_models": [],
                "error": "",
            },
        },
    }  # fmt: skip


def document(*runtimes: dict[str, Any]) -> str:
    return json.dumps({"neuron_runtime_data": list(runtimes), "system_data": {}, "instance_info": {}})


def test_each_core_gets_its_own_numbers() -> None:
    found = per_core(document(runtime(0, utilization=40, memory=1000), runtime(1, utilization=10, memory=7, failed=2)))
    assert found == {
        0: {"CoreUtilization": 40.0, "DeviceMemory": 1000.0, "ExecutionErrors": 0.0},
        1: {"CoreUtilization": 10.0, "DeviceMemory": 7.0, "ExecutionErrors": 4.0},
    }


def test_a_group_with_an_error_is_left_out() -> None:
    found = per_core(document(runtime(0, utilization=40, memory=1000, error="no such file")))
    assert "CoreUtilization" not in found[0] and found[0]["DeviceMemory"] == 1000.0
    assert per_core('{"neuron_runtime_data": null}') == {}
    assert per_core(document({"report": {}})) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"neuron_runtime_data": [{"report": 1}]}', "null"])
def test_other_lines_are_named(text: str) -> None:
    with pytest.raises(DocumentError, match="not a document of neuron-monitor"):
        per_core(text)


def test_documents_of_an_interval() -> None:
    documents = Documents()
    for utilization in (10.0, 30.0):
        documents.add(per_core(document(runtime(0, utilization=utilization, memory=8, failed=1))))
    assert documents.take()[0] == {"CoreUtilization": 20.0, "DeviceMemory": 8.0, "ExecutionErrors": 4.0}
    assert documents.take() == {}


def served(metrics: Metrics) -> None:
    """A batch of 3 rows, one of 1, a refusal, a failure, and a health check."""
    metrics.queue_rows.set(5)
    metrics.batch("model_0", rows=3, batch=4, length=64, seconds=0.01)
    metrics.batch("model_0", rows=1, batch=1, length=64, seconds=0.01)
    for _ in range(4):
        metrics.stages("model_0", (0.001, 0.002, 0.003, 0.006))
        metrics.response("/predict", 200)
    metrics.response("/predict", 503)
    metrics.response("/predictions_neuron_core_{core}/{model}", 500)
    metrics.response("/readyz", 503)
    metrics.response("/predict", 422)


def test_what_our_own_servers_count_is_read() -> None:
    """The names and labels are those that the server really writes."""
    metrics = Metrics(core=3)
    before = totals(metrics.text().decode())
    served(metrics)
    found = values(before, totals(metrics.text().decode()))
    assert found == pytest.approx(
        {
            "QueueRows": 5, "PendingRows": 0, "Requests": 7, "Refused": 1, "Failed": 1, "BatchRows": 2,
            "PrepareMilliseconds": 1, "QueueMilliseconds": 2, "InferenceMilliseconds": 3, "TotalMilliseconds": 6,
        }
    )  # fmt: skip
    assert set(found) <= set(UNITS)
    assert {f"{stage.capitalize()}Milliseconds" for stage in STAGES} <= set(found)


def test_a_server_that_was_started_again_counts_from_nothing() -> None:
    old, new = Metrics(core=0), Metrics(core=0)
    for _ in range(3):
        served(old)
    served(new)
    found = values(totals(old.text().decode()), totals(new.text().decode()))
    assert (found["Requests"], found["BatchRows"]) == (7, 2)
    quiet = values(totals(new.text().decode()), totals(new.text().decode()))
    assert quiet["Requests"] == 0 and "BatchRows" not in quiet and "TotalMilliseconds" not in quiet


def test_servers_are_looked_at_with_the_token() -> None:
    metrics = Metrics(core=0)
    with fake_core(0, handle=lambda *_: (200, metrics.text())) as core:
        monitor = Monitor(ports=[core.port], token="sesame")
        monitor.look({})
        served(metrics)
        found = monitor.look({0: {"CoreUtilization": 5.0}, 7: {"CoreUtilization": 1.0}})
        assert core.seen[-1][1:][1]["authorization"] == "Bearer sesame"
    assert list(found) == [0]
    assert (found[0]["ServerUp"], found[0]["CoreUtilization"], found[0]["Requests"]) == (1.0, 5.0, 7.0)
    assert monitor.look({})[0] == {"ServerUp": 0.0}, "it does not answer any more"


def test_a_line_is_in_the_embedded_metric_format() -> None:
    text = line(11, {"CoreUtilization": 12.3456}, deployment="prod", instance="i-1", at=1000.5)
    assert text.startswith('{"_aws"') and "\n" not in text
    assert json.loads(text) == {
        "_aws": {
            "Timestamp": 1000500,
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [["Deployment"], ["Deployment", "InstanceId", "NeuronCore"]],
                    "Metrics": [{"Name": "CoreUtilization", "Unit": "Percent"}],
                }
            ],
        },
        "Deployment": "prod",
        "InstanceId": "i-1",
        "NeuronCore": "11",
        "CoreUtilization": 12.346,
    }


def start(stdin: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "model_code.neuron_monitor"],
        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={
            "PYTHONPATH": str(ROOT), "TORCHLIFT_DEPLOYMENT": "test", "TORCHLIFT_INSTANCE_ID": "i-1",
            "TORCHLIFT_CORES": "1", "TORCHLIFT_MONITOR_SECONDS": "0.3",
        },
    )  # fmt: skip


def test_without_neuron_monitor_it_says_so_and_goes_on() -> None:
    process = start(subprocess.DEVNULL)
    try:
        assert process.stderr is not None and process.stdout is not None
        assert "there is no neuron-monitor" in process.stderr.readline()
        for _ in range(2):
            assert json.loads(process.stdout.readline())["NeuronCore"] == "0"
    finally:
        process.kill()
        process.communicate()


def test_it_ends_with_neuron_monitor() -> None:
    process = start(subprocess.PIPE)
    lines = f"{document(runtime(0, utilization=50, memory=9))}\nnonsense\n"
    out, err = process.communicate(lines, timeout=60)
    assert process.returncode == 1
    assert "not a document of neuron-monitor" in err and "neuron-monitor has ended" in err
    assert all("_aws" in json.loads(printed) for printed in out.splitlines())
