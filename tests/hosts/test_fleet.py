"""What a host does at every boot: images, token, proxy, servers, the question to every core, and the signal."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.hosts.conftest import HOST_FILES, IMAGES, Host, right_answer
from tests.hosts.proxy import FakeCore, fake_core

Answering = Callable[[FakeCore, str, str, bytes], tuple[int, bytes]]


def behind_nginx(**wrong: object) -> Answering:
    """Answers as nginx in front of right servers; `wrong` changes what core 1 says."""

    def handle(core: FakeCore, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        number = int(path.split("/")[2]) if path.startswith("/cores/") else 0
        return 200, right_answer(number, json.loads(body)["context"], **(wrong if number == 1 else {}))

    return handle


def boot(host: Host, answering: Answering | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    with fake_core(0, port=int(host.variables["TORCHLIFT_LISTEN"]), handle=answering or behind_nginx()):
        return host.run("fleet.sh", **variables)


def test_a_boot_starts_everything_and_signals(host: Host) -> None:
    done = boot(host)
    assert done.returncode == 0, done.stdout + done.stderr
    assert host.lines("signals") == [
        "--stack-name Torchlift-test-Inferentia --logical-resource-id FleetGroup "
        "--unique-id i-0123456789abcdef0 --status SUCCESS"
    ]
    assert sorted(host.lines("pulled")) == sorted(IMAGES.values())
    assert host.lines("systemctl.log") == [
        "start --no-block torchlift-server@0.service torchlift-server@1.service torchlift-nginx.service "
        "torchlift-monitor.service torchlift-watch.service"
    ]
    assert host.told() == ["torchlift: 2 cores answer"]
    nginx = (host.root / "etc/torchlift/nginx.conf").read_text()
    assert f"listen {host.variables['TORCHLIFT_LISTEN']} " in nginx and "/predictions_neuron_core_1/" in nginx


def test_the_signal_comes_when_the_load_balancer_had_time(host: Host) -> None:
    """Then the stack ends an old host."""
    host.bench.program("sleep", 'echo "$1: $(ls "$TEST_FOLDER/signals" 2>/dev/null)" >>"$TEST_FOLDER/pauses"')
    assert boot(host, TORCHLIFT_SETTLE_SECONDS="20").returncode == 0
    assert (host.lines("pauses")[-1], host.signals()) == ("20: ", ["SUCCESS"])


def test_a_second_boot_changes_nothing(host: Host) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in host.root.rglob("*") if path.is_file()}

    boot(host)
    before, pulled = files(), host.lines("pulled")
    assert boot(host).returncode == 0
    assert files() == before
    assert host.lines("pulled") == pulled
    assert not [call for call in host.lines("docker.log") if call.startswith(("rm", "stop", "kill"))]


def test_a_signal_that_nobody_wants_is_no_failure(host: Host) -> None:
    """An instance that the group adds later: the stack says that it cannot be signalled."""
    host.bench.program("aws", 'case "$1" in cloudformation) exit 254 ;; esac\nexec "$REAL" "$@"')
    host.bench.program("sleep", "exit 0")
    done = boot(host)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the stack takes no signal now" in done.stdout
    assert not [call for call in host.lines("systemctl.log") if call.startswith("stop")]


def test_a_pull_is_tried_again_ever_later(host: Host) -> None:
    docker = (host.bench.bin / "docker").read_text().partition("\n")[2]
    host.bench.program("docker", f'case "$1" in pull) exit 1 ;; esac\n{docker}')
    host.bench.program("sleep", 'echo "$1" >>"$TEST_FOLDER/pauses"')
    done = boot(host, None, TORCHLIFT_DEADLINE_SECONDS="600")
    assert done.returncode == 1 and host.signals() == ["FAILURE"]
    assert host.lines("pauses")[:4] == ["5", "15", "45", "60"]


def test_a_host_asks_who_it_is_with_a_token(host: Host) -> None:
    host.bench.program(
        "curl",
        'case "$*" in\n'
        '*"-X PUT"*seconds:*/latest/api/token) echo a-token ;;\n'
        '*"X-aws-ec2-metadata-token: a-token"*/latest/meta-data/instance-id) echo i-0fedcba9876543210 ;;\n'
        "*) exit 22 ;;\nesac",
    )
    script = f'. "{host.root}/opt/torchlift/hosts/inferentia/common.sh"; metadata instance-id'
    host.run("server.sh", "9")  # writes the environment
    done = subprocess.run(
        ["bash", "-c", script], env=host.bench.environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "i-0fedcba9876543210\n", done.stderr


@pytest.mark.parametrize(
    ("variables", "breakage", "reason"),
    [
        ({"TORCHLIFT_CORES": "3"}, "", "there is no /dev/neuron1: 3 cores need it"),
        ({}, "ecr-get-login-password", "nginx:1123456789abcdef cannot be pulled"),
        ({"TORCHLIFT_TOKEN_SECRET": "no-such-secret"}, "", "the secret no-such-secret cannot be read"),
        ({"TORCHLIFT_MAX_BODY_BYTES": "much"}, "", "configuring nginx failed"),
    ],
)
def test_a_step_that_fails_is_signalled(host: Host, variables: dict[str, str], breakage: str, reason: str) -> None:
    (host.bench.folder / "pulled").write_text(IMAGES["TORCHLIFT_SERVING_IMAGE"] + "\n")
    fake = (host.bench.bin / "aws").read_text()
    host.bench.program(
        "aws", f'[ "$1-$2" != "{breakage}" ] || exit 1\n{fake.partition("REAL=")[2].partition(chr(10))[2]}'
    )
    host.bench.program("sleep", "exit 0")
    done = boot(host, None, **variables)
    assert done.returncode == 1
    assert host.signals() == ["FAILURE"]
    (line,) = host.told()
    assert line.startswith("torchlift: FAILURE: ") and reason in line
    assert host.lines("systemctl.log")[-1] == "stop torchlift-nginx.service", "the load balancer must see it"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"core": 0}, "core 1: core 0 answered for it"),
        ({"text": "1844"}, "core 1: no span of the context"),
        ({"text": "", "start": 0, "end": 0}, "core 1: no span of the context"),
        ({"text": "The", "start": 0, "end": 3}, "model_0 answers 'The', but '1843' on core 0"),
        ({"score": 7}, "core 1: no span of the context"),
        ({"start": None}, "core 1: "),
    ],
)
def test_wrong_answers_are_signalled(host: Host, wrong: dict[str, object], reason: str) -> None:
    boot(host, behind_nginx(**wrong), TORCHLIFT_DEADLINE_SECONDS="1")
    assert host.signals() == ["FAILURE"]
    (line,) = host.told()
    assert reason in line
    assert "no such bucket" in line, "what the server said itself"


def test_models_may_differ(host: Host) -> None:
    """Shares of traffic: one core answers with another model."""
    done = boot(host, behind_nginx(text="The", start=0, end=3, model="model_1"))
    assert (done.returncode, host.signals()) == (0, ["SUCCESS"])


def test_a_host_whose_servers_never_answer_gives_up(host: Host) -> None:
    started = time.monotonic()
    done = host.run("fleet.sh", TORCHLIFT_DEADLINE_SECONDS="2")
    assert done.returncode == 1 and time.monotonic() - started < 60
    assert host.signals() == ["FAILURE"]
    assert "core 0: ConnectionRefusedError" in host.told()[0] and "core 1: " in host.told()[0]


def test_the_token_lies_in_memory_and_opens_the_servers(host: Host) -> None:
    host.bench.client("secretsmanager").create_secret(Name=host.bench.bucket, SecretString="open sesame")
    brought: list[str] = []

    def guarded(core: FakeCore, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        brought.append(core.seen[-1][2].get("authorization", ""))
        return behind_nginx()(core, method, path, body)

    done = boot(host, guarded, TORCHLIFT_TOKEN_SECRET=host.bench.bucket)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(brought) == {"Bearer open sesame"}
    token = host.root / "run/torchlift/token"
    assert token.read_text().strip() == "open sesame"
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.parent.stat().st_mode & 0o777 == 0o700
    assert "sesame" not in done.stdout + done.stderr + " ".join(host.lines("docker.log"))


@pytest.mark.parametrize("path_of_one", ["/cores/0/predict", "/cores/1/predict", "/predict"])
def test_check_waits_for_whatever_does_not_answer_yet(path_of_one: str) -> None:
    """Cores start; and nginx takes them off the balanced path for a second when they refuse a connection."""
    asked: list[str] = []

    def starting(core: FakeCore, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        asked.append(path)
        if path == path_of_one and asked.count(path) < 3:
            return 502, b"starting"
        return behind_nginx()(core, method, path, body)

    with fake_core(0, handle=starting) as core:
        address = f"127.0.0.1:{core.port}"
        command = [
            sys.executable,
            str(HOST_FILES / "check.py"),
            "--address",
            address,
            "--cores",
            "2",
            "--seconds",
            "60",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (asked[-1], asked.count(path_of_one)) == ("/predict", 3), "and as clients ask, when the cores answer"
