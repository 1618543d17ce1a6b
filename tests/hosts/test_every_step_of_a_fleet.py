"""Each step of an Inf2 host broken once, at its first boot and in its scripts: one FAILURE, and no port stays open."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Iterator

import pytest

from tests.hosts.conftest import HOST_FILES, Host
from tests.hosts.proxy import fake_core
from tests.hosts.test_fleet import behind_nginx
from tests.scripts import breaking
from tests.scripts.conftest import REPO_ROOT
from tests.support.waiting import eventually

OF_FLEET = (
    "install", "flock", "timeout", "docker", "sleep", "aws", "chown", "chmod", "mv", "python3", "systemctl", "tail",
)  # fmt: skip
# All of bash: a sweep calls it hundreds of times. What AWS takes is shown by the other tests.
AWS = """
case "$1-$2" in
  cloudformation-signal-resource) echo "${*: 3}" >>"$TEST_FOLDER/signals" ;;
  logs-put-log-events) echo "${*: -1}" >>"$TEST_FOLDER/told" ;;
  logs-create-log-stream) ;;
  ecr-get-login-password) echo password ;;
  secretsmanager-get-secret-value) echo "open sesame" ;;
  s3-cp) exec /bin/cp "$TEST_FOLDER/bundle.zip" "${@: -1}" ;;
  *) exit 252 ;;
esac
"""
RECORDS = ("signals", "told", "pulled", "docker.log", "systemctl.log")


@pytest.fixture
def fleet(host: Host) -> Iterator[Host]:
    """A host whose servers answer right."""
    host.bench.program("aws", AWS)
    host.bench.program("sleep", "exit 0")
    host.variables |= {"TORCHLIFT_TOKEN_SECRET": "token"}
    with zipfile.ZipFile(host.bench.folder / "bundle.zip", "w") as archive:
        for path in HOST_FILES.iterdir():
            archive.write(path, path.relative_to(REPO_ROOT))
    with fake_core(0, port=int(host.variables["TORCHLIFT_LISTEN"]), handle=behind_nginx()):
        yield host


def anew(host: Host) -> None:
    """A host that never booted."""
    for name in RECORDS:
        (host.bench.folder / name).unlink(missing_ok=True)
    for name in ("run/torchlift/token", "etc/torchlift/nginx.conf", "var/lib/torchlift", "etc/systemd"):
        path = host.root / name
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


NAMED = {
    "start --no-block": "starting the servers",
    "token.new": "reading the token",
    "nginx.conf": "configuring nginx",
    "install -d -m 0700": "reading the instance's id",
    "sleep": "asking the cores",
}
"""What a failure of such a call is told as, where the script gives it no sentence of its own."""


@pytest.mark.long
def test_a_boot_broken_at_each_step_is_told_once(fleet: Host) -> None:
    breaking.count(fleet.bench, OF_FLEET, caller="fleet.sh", breakage=breaking.FAILS)
    seen = set()
    for step in breaking.sweep(fleet.bench):
        anew(fleet)
        done = fleet.run("fleet.sh")
        calls = breaking.steps(fleet.bench)
        if step == 0:
            assert (done.returncode, fleet.signals()) == (0, ["SUCCESS"]), done.stderr
            assert len(calls) >= 25, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {done.stdout}{done.stderr}"
            assert fleet.signals() == (["FAILURE"] if done.returncode else ["SUCCESS"]), broken
            told = [line for line in fleet.lines("told") if "FAILURE: " in line]
            assert len(told) == (1 if done.returncode else 0), broken
            assert not done.returncode or fleet.lines("systemctl.log")[-1].startswith("stop "), broken
            named = next((name for part, name in NAMED.items() if part in calls[step - 1]), None)
            if done.returncode and named:
                seen.add(named)
                assert f"FAILURE: {named} failed" in told[0], broken
    assert seen == set(NAMED.values())


@pytest.mark.parametrize("program", ["docker", "python3", "systemctl", "chown"])
def test_a_program_that_is_missing_is_told_once(fleet: Host, program: str) -> None:
    fleet.bench.program(program, breaking.MISSING)
    assert fleet.run("fleet.sh").returncode == 1
    assert fleet.signals() == ["FAILURE"]


def test_a_last_word_that_breaks_is_told_once_too(fleet: Host) -> None:
    """What says why a core does not answer may fail as well, and in a subshell."""
    for name in ("journalctl", "tail", "sed", "head", "tr"):
        fleet.bench.program(name, "exit 1")
    silent = 'case "$*" in *check.py*) echo "core 1: silent" >&2; exit 1 ;; esac'
    fleet.bench.program("python3", f'{silent}\nexec "$REAL" "$@"')
    assert fleet.run("fleet.sh").returncode == 1
    assert fleet.signals() == ["FAILURE"] and len(fleet.lines("told")) == 1
    assert "core 1: silent" in fleet.lines("told")[0]


@pytest.mark.parametrize(
    ("program", "call"),
    [("docker", "login"), ("docker", "pull"), ("aws", "ecr"), ("aws", "secretsmanager"), ("systemctl", "start")],
)
def test_a_step_that_hangs_ends_at_the_hosts_deadline(fleet: Host, program: str, call: str) -> None:
    real = (fleet.bench.bin / program).read_text()
    fleet.bench.program(program, f'case "$1" in {call}) exec /bin/sleep 100 ;; esac\n{real}')
    done = fleet.run("fleet.sh", TORCHLIFT_DEADLINE_SECONDS="2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert fleet.signals() == ["FAILURE"] and len(fleet.lines("told")) == 1


def test_a_host_that_is_shut_down_says_nothing_and_boots_again(fleet: Host) -> None:
    real = (fleet.bench.bin / "docker").read_text()
    fleet.bench.program("docker", f'case "$1" in pull) touch "$TEST_FOLDER/begun"; exec /bin/sleep 100 ;; esac\n{real}')
    lines = [f"{name}={shlex.quote(value)}" for name, value in fleet.variables.items()]
    (fleet.root / "etc/torchlift/fleet.env").write_text("\n".join(lines) + "\n")
    process = subprocess.Popen(
        ["bash", str(fleet.root / "opt/torchlift/hosts/inferentia/fleet.sh")],
        env=fleet.bench.environment, start_new_session=True,
    )  # fmt: skip
    eventually((fleet.bench.folder / "begun").exists)
    # As systemd does: all of the unit's processes at once. `timeout` has a group of its own.
    os.kill(process.pid, signal.SIGTERM)
    subprocess.run(["pkill", "-TERM", "-P", str(process.pid)], check=True)
    assert process.wait(30) == 0
    assert fleet.signals() == [] and fleet.lines("told") == []
    fleet.bench.program("docker", real)
    assert fleet.run("fleet.sh").returncode == 0
    assert fleet.signals() == ["SUCCESS"]


def test_two_boots_at_once_come_one_after_the_other(fleet: Host) -> None:
    assert fleet.run("fleet.sh").returncode == 0
    before = (fleet.root / "etc/torchlift/nginx.conf").read_bytes()
    both = [
        subprocess.Popen(
            ["bash", str(fleet.root / "opt/torchlift/hosts/inferentia/fleet.sh")], env=fleet.bench.environment
        )
        for _ in range(2)
    ]
    assert [process.wait(60) for process in both] == [0, 0]
    assert fleet.signals() == ["SUCCESS"] * 3
    assert (fleet.root / "etc/torchlift/nginx.conf").read_bytes() == before


@pytest.mark.parametrize("script", ["server.sh", "nginx.sh", "monitor.sh"])
def test_a_unit_broken_at_each_step_starts_nothing_odd(fleet: Host, script: str) -> None:
    """Its unit starts it again: a container either runs as it should or does not."""
    programs = ("cat", "awk", "stat", "timeout", "docker", "dirname")
    breaking.count(fleet.bench, programs, caller=script, breakage=breaking.FAILS)
    right = ""
    for step in breaking.sweep(fleet.bench):
        anew(fleet)
        done = fleet.run(script, "0")
        runs = [line for line in fleet.lines("docker.log") if line.startswith("run ")]
        if step == 0:
            assert done.returncode == 0 and len(runs) == 1, done.stderr
            right = runs[0]
            assert len(breaking.steps(fleet.bench)) >= 3
        assert runs in ([], [right]) and (runs or done.returncode), f"step {step}: {breaking.steps(fleet.bench)}"


@pytest.mark.parametrize("status", ["127", "2", "27"])
def test_a_curl_that_fails_itself_ends_no_server(fleet: Host, status: str) -> None:
    fleet.bench.program("curl", f"exit {status}")
    fleet.bench.program("sleep", 'echo >>"$TEST_FOLDER/looks"; [ "$(wc -l <"$TEST_FOLDER/looks")" -lt 4 ]')
    fleet.run("watch.sh")
    assert fleet.lines("docker.log") == []


def test_a_docker_that_hangs_does_not_stop_the_watch(fleet: Host) -> None:
    fleet.bench.program("curl", "exit 28")
    fleet.bench.program("timeout", 'echo "$*" >>"$TEST_FOLDER/timeouts"; exit 124')
    fleet.bench.program("sleep", 'echo >>"$TEST_FOLDER/looks"; [ "$(wc -l <"$TEST_FOLDER/looks")" -lt 6 ]')
    fleet.run("watch.sh")
    assert len(fleet.lines("timeouts")) == 4, "both cores, each after three looks"


def user_data(host: Host) -> subprocess.CompletedProcess[str]:
    lines = "\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(host.variables.items()))
    script = host.bench.folder / "user_data.sh"
    script.write_text((HOST_FILES / "user_data.sh").read_text().replace("@FLEET_ENVIRONMENT@", lines))
    return subprocess.run(
        ["bash", str(script)],
        env=host.bench.environment, capture_output=True, text=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip


def test_user_data_twice_changes_nothing(fleet: Host) -> None:
    enabled = fleet.root / "etc/systemd/system/multi-user.target.wants/torchlift-fleet.service"
    fleet.bench.program(
        "systemctl",
        f"""echo "$*" >>"$TEST_FOLDER/systemctl.log"
case "$1" in enable) mkdir -p {enabled.parent}; ln -s ../torchlift-fleet.service {enabled} ;; esac""",
    )
    assert user_data(fleet).returncode == 0
    before, units = breaking.written(fleet.root), fleet.lines("systemctl.log")
    assert user_data(fleet).returncode == 0
    assert breaking.written(fleet.root) == before and fleet.lines("systemctl.log") == units and fleet.signals() == []


@pytest.mark.parametrize("breakage", [breaking.FAILS, breaking.KILLED])
def test_a_first_boot_broken_at_each_step(fleet: Host, breakage: str) -> None:
    """A failure is told once; a host that is reset runs it again, for cloud-init's mark is gone."""
    mark = fleet.root / "var/lib/cloud/instance/sem/config_scripts_user"
    mark.parent.mkdir(parents=True)
    breaking.count(fleet.bench, breaking.OF_BOOT, caller="user_data.sh", breakage=breakage)
    for step in breaking.sweep(fleet.bench):
        anew(fleet)
        mark.touch()
        done = user_data(fleet)
        calls = breaking.steps(fleet.bench)
        if step == 0:
            assert done.returncode == 0 and fleet.signals() == [], done.stderr
            assert len(calls) >= 11, calls
        else:
            broken = f"step {step}, {calls[step - 1]}: {done.stderr}"
            assert fleet.signals() == (["FAILURE"] if breakage == breaking.FAILS else []), broken
            assert not mark.exists() or step == 1, broken
            breaking.break_at(fleet.bench, 0)
            assert user_data(fleet).returncode == 0, broken
