"""A host's own network: nothing but what is carried, and nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from stand_in.executor.health import Health, HealthCheck
from stand_in.executor.servers import free_ports
from stand_in.images.network import OwnNetwork
from tests.support.waiting import eventually

BIG = os.urandom(1024) * 4096


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BIG)))
        self.end_headers()
        self.wfile.write(BIG)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def outside() -> Iterator[int]:
    """A server on this machine's loopback: its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def network(outside: int) -> Iterator[OwnNetwork]:
    try:
        made = OwnNetwork(reachable=[outside])
    except PermissionError as error:
        pytest.skip(f"this machine makes no network namespaces: {error}")
    yield made
    made.close()


def curl(network: OwnNetwork, url: str) -> tuple[int, int]:
    """(exit status, bytes) of a download from within."""
    done = subprocess.run(
        [*network.enter(), "curl", "--silent", "--noproxy", "*", "--max-time", "10", url], capture_output=True
    )
    return done.returncode, len(done.stdout)


def test_it_reaches_what_is_carried_and_nothing_else(network: OwnNetwork, outside: int) -> None:
    assert curl(network, f"http://127.0.0.1:{outside}/") == (0, len(BIG))
    (other,) = free_ports(1)
    with ThreadingHTTPServer(("127.0.0.1", other), Handler):
        assert curl(network, f"http://127.0.0.1:{other}/") == (7, 0), "a port of this machine that was not let in"
    assert curl(network, "http://192.0.2.1/")[0] == 7, "no way out"


def test_two_hosts_have_the_same_port_and_are_reached_by_others(network: OwnNetwork, tmp_path: Path) -> None:
    second = OwnNetwork(reachable=[])
    servers, ports = [], []
    try:
        for name, one in (("first", network), ("second", second)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "index.html").write_text(name)
            command = [*one.enter(), sys.executable, "-m", "http.server", "8080", "--bind", "127.0.0.1"]
            servers.append(subprocess.Popen(command, cwd=tmp_path / name, stderr=subprocess.DEVNULL))
            ports.append(one.publish(8080))
        assert [eventually(partial(answer, port)) for port in ports] == ["first", "second"]
    finally:
        for server in servers:
            server.kill()
            server.wait()
        second.close()
    assert answer(ports[0]) == "", "its server has ended"
    listening = {each.laddr.port for each in psutil.Process().net_connections("tcp") if each.status == "LISTEN"}
    assert ports[0] in listening and ports[1] not in listening


def answer(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as found:
            return str(found.read().decode())
    except OSError:
        return ""


def test_what_nothing_listens_on_is_reset(network: OwnNetwork) -> None:
    with pytest.raises((ConnectionResetError, urllib.error.URLError), match="reset"):
        urllib.request.urlopen(f"http://127.0.0.1:{network.publish(8080)}/", timeout=10)


def test_nothing_of_it_is_left(outside: int) -> None:
    threads, descriptors = threading.active_count(), psutil.Process().num_fds()
    network = OwnNetwork(reachable=[outside])
    network.publish(8080)
    assert psutil.Process().num_fds() > descriptors
    network.close()
    network.close()
    eventually(lambda: threading.active_count() <= threads and psutil.Process().num_fds() <= descriptors)


def test_a_host_is_healthy_after_some_answers_and_no_longer_after_some_silences(outside: int) -> None:
    (silent,) = free_ports(1)
    check = HealthCheck(path="/", interval_s=1, timeout_s=5, up=2, down=3)
    health = Health(check, outside)
    assert [health.look(), health.look()] == [False, True]
    health._port = silent
    assert [health.look() for _ in range(2)] == [True, True]
    health._port = outside
    assert health.look(), "an answer in between"
    health._port = silent
    assert [health.look() for _ in range(3)] == [True, True, False]
