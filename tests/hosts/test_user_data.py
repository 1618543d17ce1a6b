"""A host's first boot."""

from __future__ import annotations

import shlex
import subprocess
import zipfile

import pytest

from tests.hosts.conftest import HOST_FILES, Host
from tests.scripts.conftest import REPO_ROOT


def boot(host: Host, **variables: str) -> subprocess.CompletedProcess[str]:
    given = {**host.variables, **variables}
    lines = "\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(given.items()))
    script = host.bench.folder / "user_data.sh"
    script.write_text((HOST_FILES / "user_data.sh").read_text().replace("@FLEET_ENVIRONMENT@", lines))
    return subprocess.run(
        ["bash", str(script)], env=host.bench.environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_bundle_is_fetched_and_the_unit_enabled(host: Host) -> None:
    bundle = host.bench.folder / "bundle.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        for path in HOST_FILES.iterdir():
            archive.write(path, path.relative_to(REPO_ROOT))
    host.bench.put("assets/bundle.zip", bundle.read_bytes())
    done = boot(host, TORCHLIFT_COMPILER_ARGS="it's $HOME")
    assert done.returncode == 0, done.stderr
    units = {path.name for path in (host.root / "etc/systemd/system").iterdir()}
    assert units == {path.name for path in HOST_FILES.glob("*.service")}
    environment = host.root / "etc/torchlift/fleet.env"
    assert environment.stat().st_mode & 0o777 == 0o600
    read = subprocess.run(
        ["bash", "-c", f'. "{environment}"; printf %s "$TORCHLIFT_COMPILER_ARGS"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout == "it's $HOME"
    assert host.lines("systemctl.log") == ["daemon-reload", "enable --now --no-block torchlift-fleet.service"]
    assert host.signals() == []


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TORCHLIFT_SOURCE": "s3://no-such-bucket-here/x.zip"}, "cannot fetch s3://no-such-bucket-here/x.zip"),
        ({"TORCHLIFT_ROOT_GIB": "99999999"}, "is the AMI's root device another one?"),
    ],
)
def test_a_boot_that_fails_says_so(host: Host, variables: dict[str, str], said: str) -> None:
    done = boot(host, **variables)
    assert done.returncode == 1
    assert "torchlift: FAILURE: user data: " in done.stderr, "for the serial console"
    assert host.signals() == ["FAILURE"]
    (line,) = host.told()
    assert said in line
    assert host.lines("systemctl.log") == []


def test_a_missing_program_is_named(host: Host) -> None:
    (host.bench.bin / "docker").unlink()
    real = host.bench.environment["PATH"]
    # Only what the script itself needs, besides the recorders.
    for name in ("bash", "install", "rm", "date", "curl", "python3", "timeout"):
        path = subprocess.run(
            ["bash", "-c", f"command -v {name}"], capture_output=True, text=True, env={"PATH": real}, check=True
        )
        if not (host.bench.bin / name).exists():
            (host.bench.bin / name).symlink_to(path.stdout.strip())
    host.bench.environment["PATH"] = str(host.bench.bin)
    done = boot(host)
    assert done.returncode == 1
    assert "the AMI has no docker" in done.stderr
    assert host.signals() == ["FAILURE"]
