"""Every systemd unit of every host: systemd takes it, and it keeps the promises that the host's scripts rely on."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from model_code.serving import settings as server_settings
from settings import REPO_ROOT

UNITS = sorted((REPO_ROOT / "hosts").glob("*/*.service"))
BOOTED = [path for path in UNITS if "[Install]" in path.read_text()]
"""What user data enables: it runs once at every boot."""
KEPT = [path for path in UNITS if path not in BOOTED]
"""What the booted unit starts and systemd keeps going."""
WATCH = REPO_ROOT / "hosts/inferentia/torchlift-watch.service"
SYSTEMD_STOP_SECONDS = 90
"""systemd's DefaultTimeoutStopSec."""


def by_name(path: Path) -> str:
    return path.name


def read(path: Path) -> configparser.RawConfigParser:
    """A unit's sections. Raises configparser.Error for what stands twice or outside of a section."""
    parser = configparser.RawConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text())
    return parser


def script_of(path: Path) -> Path:
    """The script of ours that the unit starts."""
    found = re.fullmatch(r"/bin/bash /opt/torchlift/(hosts/\w+/\w+\.sh)( %i)?", read(path)["Service"]["ExecStart"])
    assert found
    return REPO_ROOT / found[1]


def container_of(path: Path) -> str:
    """The name of the container that the unit's script becomes, with `%i` for a core; none: an empty string."""
    found = re.search(r"container \"?(torchlift-[\w$-]+)", script_of(path).read_text())
    return found[1].replace("$core", "%i") if found else ""


def test_hosts_have_units() -> None:
    assert {path.parent.name for path in BOOTED} == {"inferentia", "instance_job"}
    assert len(KEPT) == 4


@pytest.mark.parametrize("folder", sorted({path.parent for path in UNITS}), ids=by_name)
def test_systemd_takes_the_units(folder: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in folder.glob("*.service"):
        shutil.copy(unit, tmp_path)
    (tmp_path / "docker.service").write_text("[Service]\nExecStart=/bin/true\n")
    names = [unit.name.replace("@.", "@0.") for unit in folder.glob("*.service")]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *[str(tmp_path / name) for name in names]],
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "torchlift" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=by_name)
def test_a_unit_names_itself_and_needs_docker(unit: Path) -> None:
    head = read(unit)["Unit"]
    assert head["Description"].startswith("Torchlift")
    assert head["Requires"] == "docker.service"
    assert "docker.service" in head["After"].split()
    assert script_of(unit).exists()
    assert ("%i" in read(unit)["Service"]["ExecStart"]) == ("@" in unit.name)


@pytest.mark.parametrize("unit", BOOTED, ids=by_name)
def test_a_unit_of_the_boot_runs_once_with_its_environment_and_a_network(unit: Path) -> None:
    head, service = read(unit)["Unit"], read(unit)["Service"]
    assert read(unit)["Install"]["WantedBy"] == "multi-user.target"
    assert "network-online.target" in head["After"].split() and head["Wants"] == "network-online.target"
    assert service["Type"] == "oneshot"
    # What the user data writes; without it an AMI made of the host would run a job that nobody asked for.
    assert head["ConditionPathExists"] in (unit.parent / "user_data.sh").read_text().replace("$ROOT", "")
    # The serial console shows it where no log reaches CloudWatch.
    assert service["StandardOutput"] == service["StandardError"] == "journal+console"


def test_a_job_ends_in_order_when_its_host_goes_down() -> None:
    job = read(REPO_ROOT / "hosts/instance_job/torchlift-job.service")["Service"]
    # Within the two minutes of a Spot notice, and longer than the container's 40 seconds with a last checkpoint.
    assert 60 < int(job["TimeoutStopSec"]) < 120
    # The script alone is asked to stop: it stops the rest in order.
    assert job["KillMode"] == "mixed"


def test_what_the_boot_of_a_fleet_host_started_is_judged_as_long_as_the_host_is_up() -> None:
    assert read(REPO_ROOT / "hosts/inferentia/torchlift-fleet.service")["Service"]["RemainAfterExit"] == "yes"


@pytest.mark.parametrize("unit", KEPT, ids=by_name)
def test_a_server_is_started_again_however_often_it_ends(unit: Path) -> None:
    service = read(unit)["Service"]
    assert read(unit)["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["Restart"] == "always"
    # systemd's own pause, a tenth of a second, would keep a core busy with a program that fails at once.
    assert 1 <= int(service["RestartSec"]) <= 15
    assert service["StandardError"] == "journal"


@pytest.mark.parametrize("unit", [path for path in KEPT if path != WATCH], ids=by_name)
def test_a_container_ends_with_its_unit(unit: Path) -> None:
    service, name = read(unit)["Service"], container_of(unit)
    assert service["ExecStopPost"] == f"-/usr/bin/env docker rm --force {name}"
    # Docker sends it to CloudWatch: a second copy of each request's line would fill the journal.
    assert service["StandardOutput"] == "null"
    given = int(service["TimeoutStopSec"])
    if "ExecStop" not in service:
        # It has nothing to finish.
        assert given < SYSTEMD_STOP_SECONDS
        return
    stop = re.fullmatch(rf"-/usr/bin/env docker stop --time (\d+) {name}", service["ExecStop"])
    assert stop
    assert given > int(stop[1])
    # Not the whole group at once: `docker run` would be gone before its container.
    assert service["KillMode"] == "mixed"


def test_what_runs_on_the_host_itself_says_so_in_its_journal() -> None:
    assert container_of(WATCH) == ""
    assert read(WATCH)["Service"]["StandardOutput"] == "journal"


def test_a_server_drains_before_it_is_killed_and_after_the_proxy() -> None:
    server = read(REPO_ROOT / "hosts/inferentia/torchlift-server@.service")
    # Units stop in the reverse order of their start.
    assert server["Unit"]["Before"] == "torchlift-nginx.service"
    stop = re.search(r"--time (\d+)", server["Service"]["ExecStop"])
    given = server_settings.Settings()
    assert stop and given.drain_delay_seconds + given.drain_timeout_seconds < int(stop[1])
    assert server["Service"]["RestartSec"] == "1"
