"""What the units start: a container for each core with its device and port, the proxy, the monitor, the watch."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from model_code.serving import settings as server_settings
from model_code.serving.neuron_cores import device_of, port_of
from settings.hardware import EC2_TYPES
from tests.hosts.conftest import IMAGES, Host
from tests.support.aws import REGION

INF2 = {name: item for name, item in EC2_TYPES.items() if item.neuron_cores}


def run_command(host: Host) -> str:
    return next(line for line in host.lines("docker.log") if line.startswith("run "))


@pytest.mark.parametrize("name", INF2)
def test_every_core_gets_its_device_and_port(host: Host, name: str) -> None:
    item = INF2[name]
    host.add_devices(item.neuron_devices)
    devices = []
    for core in range(item.neuron_cores):
        (host.bench.folder / "docker.log").unlink(missing_ok=True)
        done = host.run("server.sh", str(core), TORCHLIFT_CORES=str(item.neuron_cores))
        assert done.returncode == 0, done.stderr
        run = run_command(host)
        found = re.findall(r"--device \S*/dev/neuron(\d+)", run)
        assert found == [str(device_of(core))], "one device, the core's own"
        devices += found
        assert f"--env NEURON_RT_VISIBLE_CORES={core} " in run
        assert f"--env TORCHLIFT_PORT={port_of(core)} " in run
        assert run.endswith(IMAGES["TORCHLIFT_SERVING_IMAGE"])
    assert {devices.count(device) for device in devices} == {2}
    assert len(set(devices)) == item.neuron_devices


def test_a_core_without_a_device_is_refused(host: Host) -> None:
    done = host.run("server.sh", "2")
    assert done.returncode == 1
    assert done.stderr == "torchlift: core 2 is on /dev/neuron1, which this instance does not have\n"
    assert not [line for line in host.lines("docker.log") if line.startswith("run ")]


def test_a_server_is_confined(host: Host, tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:       {16 * 1024 * 1024} kB\nMemFree: 1 kB\n")
    host.bench.environment["TORCHLIFT_MEMINFO"] = str(meminfo)
    group = os.getgid() + 4321 if os.geteuid() == 0 else os.getgid()
    os.chown(host.root / "dev/neuron0", -1, group)
    assert host.run("server.sh", "1").returncode == 0
    run = run_command(host)
    models = "/var/lib/torchlift/models"
    passed = "".join(f" --env {name}" for name in host.variables)
    assert run == (
        f"{confined(host, 'server-1')} --device /dev/neuron0 --group-add {group} --memory 6912m --memory-swap 6912m "
        "--ulimit nofile=65536:65536 --tmpfs /tmp:rw,mode=1777 "
        f"--volume {host.root}{models}:{models} --env TORCHLIFT_CACHE_DIR={models} "
        "--env TORCHLIFT_READY_TIMEOUT_SECONDS=600 --env NEURON_RT_VISIBLE_CORES=1 --env NEURON_PROCESS_TAG=core-1 "
        f"--env TORCHLIFT_HOST=127.0.0.1 --env TORCHLIFT_PORT=8082 --env AWS_DEFAULT_REGION={REGION}{passed} "
        f"{IMAGES['TORCHLIFT_SERVING_IMAGE']}"
    )


def confined(host: Host, name: str) -> str:
    """How `docker run` begins for each container of a host: no rights, no files, and no wait for its log."""
    return (
        f"run --rm --name torchlift-{name} --network host --user {os.getuid()}:{os.getuid()} "
        "--read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 2048 "
        f"--log-driver awslogs --log-opt awslogs-region={REGION} "
        f"--log-opt awslogs-group={host.variables['TORCHLIFT_LOG_GROUP']} "
        f"--log-opt awslogs-stream=i-0123456789abcdef0/{name} --log-opt mode=non-blocking "
        "--log-opt max-buffer-size=4m"
    )


def test_a_server_gets_the_fleets_settings(host: Host) -> None:
    """By name only: the values are in the environment that `docker run` has, and not in its arguments."""
    not_theirs = dict.fromkeys(f"TORCHLIFT_{name}" for name in ("HOST", "PORT", "CACHE_DIR", "READY_TIMEOUT_SECONDS"))
    done = host.run("server.sh", "0", TORCHLIFT_BATCH_WAIT_MS="0.5", **dict.fromkeys(not_theirs, "1"))
    assert done.returncode == 0
    run = run_command(host)
    for name in not_theirs:
        assert re.findall(rf"--env {name}\b=?", run) == [f"--env {name}="], "the host's, once"
    assert re.search(r"--env TORCHLIFT_QUEUE_ROWS .*--env TORCHLIFT_BATCH_WAIT_MS ", run)
    environment = dict(line.partition("=")[::2] for line in host.lines("environment"))
    for name, value in re.findall(r"--env ([A-Z_]+)=(\S+)", run):
        environment[name] = value
    passed = {name: environment[name] for name in re.findall(r"--env ([A-Z_]+)", run)}
    found = server_settings.from_environment(passed)
    assert (found.queue_rows, found.batch_wait_ms, found.core, found.port) == (64, 0.5, 0, 8081)
    assert found.ready_timeout_seconds > 0, "nginx knows a server only by its open port"


def test_the_token_is_mounted_read_only(host: Host) -> None:
    host.run("server.sh", "0")
    assert "TOKEN_FILE" not in run_command(host)
    (host.root / "run/torchlift/token").write_text("secret")
    for script in ("server.sh", "monitor.sh"):
        (host.bench.folder / "docker.log").unlink(missing_ok=True)
        host.run(script, "0")
        run = run_command(host)
        assert f"--volume {host.root}/run/torchlift/token:/run/torchlift/token:ro" in run
        assert "--env TORCHLIFT_TOKEN_FILE=/run/torchlift/token" in run


def test_the_monitor_reads_the_hosts_neuron_monitor(host: Host) -> None:
    host.bench.program(
        "docker", 'case "$1" in run) cat >"$TEST_FOLDER/read"; printf "%s\\n" "$*" >>"$TEST_FOLDER/docker.log" ;; esac'
    )
    done = host.run("monitor.sh")
    assert "this AMI has no neuron-monitor" in done.stderr and host.lines("read") == []
    host.bench.program("neuron-monitor", 'echo "$*"')
    assert host.run("monitor.sh").returncode == 0
    assert host.lines("read") == [f"-c {host.root}/opt/torchlift/hosts/inferentia/neuron_monitor.json"]
    # From standard input, and without a device.
    assert run_command(host) == (
        f"{confined(host, 'monitor')} --interactive --memory 256m --memory-swap 256m "
        "--env TORCHLIFT_INSTANCE_ID=i-0123456789abcdef0 --env TORCHLIFT_DEPLOYMENT --env TORCHLIFT_CORES "
        f"{IMAGES['TORCHLIFT_MONITOR_IMAGE']}"
    )


def test_the_proxy_is_confined_and_reads_the_hosts_configuration(host: Host) -> None:
    assert host.run("nginx.sh").returncode == 0
    assert run_command(host) == (
        f"{confined(host, 'nginx')} --memory 512m --memory-swap 512m --ulimit nofile=65536:65536 "
        "--tmpfs /tmp:rw,mode=1777 --volume "
        f"{host.root}/etc/torchlift/nginx.conf:/etc/torchlift/nginx.conf:ro {IMAGES['TORCHLIFT_NGINX_IMAGE']}"
    )


@pytest.mark.parametrize(("status", "ended"), [("22", True), ("28", True), ("7", False), ("0", False)])
def test_a_server_that_does_not_work_is_ended(host: Host, status: str, ended: bool) -> None:
    """22: an error status; 28: silence. 7, a closed port, is a server that starts, which its unit knows of."""
    host.bench.program("curl", f'case "$*" in *8082*) exit {status} ;; esac')
    # After as many looks as would be enough.
    host.bench.program("sleep", 'echo >>"$TEST_FOLDER/looks"; [ "$(wc -l <"$TEST_FOLDER/looks")" -lt 4 ]')
    done = host.run("watch.sh")
    assert host.lines("docker.log") == (["kill torchlift-server-1"] if ended else [])
    assert done.stdout.count("the server of core 1 does not work") == ended
