"""The proxy of a host: its configuration in the real nginx, with servers that end, hang up, refuse and answer."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model_code.serving.neuron_cores import port_of
from settings.hardware import EC2_TYPES
from stand_in.executor.servers import free_ports
from tests.hosts.proxy import FakeCore, configuration, fake_core, nginx, program

SIZES = sorted({item.neuron_cores for item in EC2_TYPES.values() if item.neuron_cores})


def hang_up(core: FakeCore, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    raise ConnectionAbortedError


@pytest.mark.parametrize("cores", [1, *SIZES])
def test_nginx_takes_the_configuration(cores: int, tmp_path: Path) -> None:
    text = configuration("--cores", str(cores), "--state", str(tmp_path))
    (tmp_path / "nginx.conf").write_text(text)
    done = subprocess.run(
        [program(), "-t", "-e", "stderr", "-c", str(tmp_path / "nginx.conf")],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for core in range(cores):
        assert text.count(f"server 127.0.0.1:{port_of(core)} ") == 2, "balanced, and by itself"
    assert str(port_of(cores)) not in text


def test_workers_grow_with_the_servers_not_with_the_vcpus() -> None:
    """One for each of 192 vCPUs would not fit into the container's memory (hosts/inferentia/nginx.sh)."""
    for cores, workers in ((1, 2), (2, 2), (24, 24)):
        assert f"worker_processes {workers};" in configuration("--cores", str(cores))


def test_each_prefix_leads_to_its_core(tmp_path: Path) -> None:
    with fake_core(0) as zero, fake_core(1) as one, fake_core(11) as eleven:
        ports = [zero.port, one.port, *[one.port] * 9, eleven.port]
        with nginx(tmp_path, ports) as proxy:
            for core in (zero, one, eleven):
                path = f"/predictions_neuron_core_{core.core}/model_0?seq_0=a&seq_1=b%20c"
                assert proxy.ask("GET", path).json == {"core": core.core, "path": path, "bytes": 0}
                assert proxy.ask("GET", f"/cores/{core.core}/metrics").json["path"] == "/metrics"
                answer = proxy.ask("POST", f"/cores/{core.core}/predict", b"{}")
                assert (answer.json["core"], answer.json["path"]) == (core.core, "/predict")
            for path in ("/predictions_neuron_core_12/model_0", "/predictions_neuron_core_x/m", "/cores/12/metrics"):
                answer = proxy.ask("GET", path)
                assert answer.status == 404
                assert answer.json["error"] == "There is no such core here: this host has cores 0 to 11."
                assert answer.json["request_id"] == answer.headers["x-request-id"]
            assert proxy.ask("GET", "/cores").json == {"cores": list(range(12))}


def test_the_requests_id_goes_through(tmp_path: Path) -> None:
    with fake_core(0) as core, nginx(tmp_path, [core.port]) as proxy:
        proxy.ask("GET", "/predict", X_Request_Id="order-7:a/b+c=")
        assert core.seen[-1][2]["x-request-id"] == "order-7:a/b+c="
        proxy.ask("GET", "/predict")
        made = core.seen[-1][2]["x-request-id"]
        proxy.ask("GET", "/predict", X_Request_Id='"}{"')
        assert len(made) == 32 and core.seen[-1][2]["x-request-id"] not in (made, '"}{"')
        assert proxy.ask("GET", "/cores/9/x", X_Request_Id='a"b').json["request_id"] != 'a"b'
        assert "connection" not in core.seen[-1][2], "connections to servers are kept"


def test_a_core_that_is_away_costs_no_request(tmp_path: Path) -> None:
    """A closed port: nothing was sent, so a POST goes to another core."""
    (closed,) = free_ports(1)
    with fake_core(1) as core, nginx(tmp_path, [closed, core.port]) as proxy:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: proxy.ask("POST", "/predict", b"{}"), range(200)))
        assert {answer.status for answer in answers} == {200}
        assert len(core.seen) == 200
        answer = proxy.ask("GET", "/predictions_neuron_core_0/model_0")
        assert (answer.status, answer.headers["retry-after"]) == (502, "1")
        assert "this core ended or is starting" in answer.json["error"]


def test_a_core_that_comes_back_is_used_again(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with fake_core(1) as other, nginx(tmp_path, [port, other.port]) as proxy:
        assert proxy.ask("POST", "/predict", b"{}").json["core"] == 1
        with fake_core(0, port=port) as core:
            deadline = time.monotonic() + 10
            while not core.seen:
                proxy.ask("POST", "/predict", b"{}")
                assert time.monotonic() < deadline


def test_a_post_is_never_run_twice(tmp_path: Path) -> None:
    """A server that ends during a request may have answered it; that request fails, and says so."""
    with (
        fake_core(0, handle=hang_up) as zero,
        fake_core(1, handle=hang_up) as one,
        nginx(tmp_path, [zero.port, one.port]) as proxy,
    ):
        answer = proxy.ask("POST", "/predict", b"{}", X_Request_Id="mine")
        assert (answer.status, answer.json["request_id"]) == (502, "mine")
        assert answer.headers["retry-after"] == "1"
        assert len(zero.seen) + len(one.seen) == 1


def test_a_refusal_is_passed_on_as_it_is(tmp_path: Path) -> None:
    body = b'{"error": "The queue is full."}'
    with fake_core(0, handle=lambda *_: (503, body)) as core, nginx(tmp_path, [core.port]) as proxy:
        answer = proxy.ask("POST", "/predict", b"{}")
        assert (answer.status, answer.body) == (503, body)


def test_a_host_is_ready_while_one_core_is(tmp_path: Path) -> None:
    with (
        fake_core(0, handle=lambda *_: (503, b"{}")) as zero,
        fake_core(1) as one,
        nginx(tmp_path, [zero.port, one.port]) as proxy,
    ):
        assert {proxy.ask("GET", "/readyz").status for _ in range(20)} == {200}
        one.handle = zero.handle
        assert proxy.ask("GET", "/readyz").status in (502, 503)
        assert proxy.ask("GET", "/healthz").status == 200


def test_large_requests(tmp_path: Path) -> None:
    with fake_core(0) as core, nginx(tmp_path, [core.port], "--max-body-bytes", "300000") as proxy:
        assert proxy.ask("POST", "/predict", b"x" * 300_000).json["bytes"] == 300_000
        answer = proxy.ask("POST", "/predict", b"x" * 300_001)
        assert (answer.status, answer.json["error"]) == (413, "The body has more than 300000 bytes.")
        assert answer.json["request_id"] == answer.headers["x-request-id"]
        assert proxy.ask("GET", "/predictions_neuron_core_0/m?seq_1=" + "x" * 15_000).status == 200
        answer = proxy.ask("GET", "/predict?" + "x" * 60_000)
        assert (answer.status, "POST /predict" in answer.json["error"]) == (414, True)


def test_stopping_answers_what_is_in_progress(tmp_path: Path) -> None:
    reached, go = threading.Event(), threading.Event()

    def slow(core: FakeCore, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        reached.set()
        go.wait(30)
        return 200, b"{}"

    with fake_core(0, handle=slow) as core, nginx(tmp_path, [core.port]) as proxy, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(proxy.ask, "POST", "/predict", b"{}")
        assert reached.wait(30)
        os.kill(proxy.child.pid, signal.SIGQUIT)
        go.set()
        assert asked.result(30).status == 200
        assert proxy.child.wait(30) == 0
