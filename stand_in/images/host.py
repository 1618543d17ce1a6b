"""A host without a machine: user data runs below a folder, and its systemd units under the small init in this file.

`python -m stand_in.images.host --root FOLDER --user-data FILE` runs the user data as an instance's first boot does,
then keeps its units going until it is ended; everything it started ends with it. Beside the user data it puts
`systemctl` and `journalctl` on PATH, which talk to it.

What the init knows of a unit: ExecStart, ExecStop, ExecStopPost (with `-`), Type (simple, oneshot), RemainAfterExit,
Restart, RestartSec, TimeoutStopSec, KillMode=mixed, ConditionPathExists, and `%i`. Anything else in [Service] that
would change what runs is refused. `/opt/torchlift`, `/etc/torchlift` and the like are below the folder, which scripts
know as TORCHLIFT_ROOT.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import json
import os
import re
import shlex
import signal
import socketserver
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

IGNORED = {"StandardOutput", "StandardError", "TimeoutStartSec"}
KNOWN = {
    "Type", "RemainAfterExit", "ExecStart", "ExecStop", "ExecStopPost", "Restart", "RestartSec", "TimeoutStopSec",
    "KillMode",
}  # fmt: skip
OURS = re.compile(r"(?<![\w/])/(?=(opt|etc|run|var/lib)/torchlift)")


class UnitError(ValueError):
    """A unit that is not there, or that this init does not understand."""


@dataclass
class Unit:
    """One unit of systemd, started and kept going."""

    name: str
    root: Path
    environment: dict[str, str]
    log: Path = field(init=False)
    process: subprocess.Popen[bytes] | None = None
    result: int | None = None
    wanted: bool = False

    def __post_init__(self) -> None:
        stem, _, instance = self.name.removesuffix(".service").partition("@")
        path = self.root / "etc/systemd/system" / f"{stem}{'@' if instance else ''}.service"
        if not path.exists():
            raise UnitError(f"Unit {self.name} not found.")
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string(path.read_text())
        self.settings = {key: value.replace("%i", instance) for key, value in parser["Service"].items()}
        self.condition = parser["Unit"].get("ConditionPathExists", "")
        unknown = set(self.settings) - KNOWN - IGNORED
        if unknown:
            raise UnitError(f"{self.name}: this init does not know {', '.join(sorted(unknown))}")
        self.log = self.root / "var/log" / f"{self.name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Begin, in a thread of its own; harmless when it runs."""
        if self.wanted or (self.condition and not (self.root / self.condition.lstrip("/")).exists()):
            return
        self.wanted = True
        threading.Thread(target=self._keep, name=self.name, daemon=True).start()

    def stop(self) -> None:
        """As systemd does: ExecStop, then SIGTERM to the main process, then SIGKILL to all of it."""
        self.wanted = False
        process = self.process
        if process is None or process.poll() is not None:
            return
        limit = float(self.settings.get("TimeoutStopSec", "90"))
        if "ExecStop" in self.settings:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._call("ExecStop", limit)
        process.terminate()
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    @property
    def state(self) -> str:
        """`active`, `failed` or `inactive`."""
        if self.process is not None and self.process.poll() is None:
            return "active"
        if self.result == 0 and self.settings.get("RemainAfterExit") == "yes":
            return "active"
        return "failed" if self.result else "inactive"

    def _keep(self) -> None:
        while self.wanted:
            with self.log.open("ab") as output:
                self.process = subprocess.Popen(
                    self._words("ExecStart"), env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            self.result = self.process.wait()
            if "ExecStopPost" in self.settings:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._call("ExecStopPost", 60)
            if self.settings.get("Restart", "no") != "always":
                self.wanted = False
            if self.wanted:
                time.sleep(float(self.settings.get("RestartSec", "0.1")))

    def _words(self, key: str) -> list[str]:
        text = OURS.sub(f"{self.root}/", self.settings[key]).lstrip("-")
        return shlex.split(text)

    def _call(self, key: str, timeout: float) -> None:
        with self.log.open("ab") as output:
            subprocess.run(
                self._words(key), env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=timeout, check=False,
            )  # fmt: skip


class Init:
    """The units of one host. `environment` is what user data and units run in."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self.root = root
        self.off = threading.Event()
        self._units: dict[str, Unit] = {}
        self._lock = threading.Lock()
        bin = root / "stand-in/bin"
        bin.mkdir(parents=True, exist_ok=True)
        self.socket = root / "stand-in/init.sock"
        for name in ("systemctl", "journalctl"):
            program = bin / name
            program.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("systemctl.py")}" "{self.socket}" '
                f'{name} "$@"\n'
            )
            program.chmod(0o755)
        self.environment = {
            **environment,
            "PATH": f"{bin}{os.pathsep}{environment['PATH']}",
            "TORCHLIFT_ROOT": str(root),
            # The job's scripts name these themselves where no root is set.
            "TORCHLIFT_HOME": str(root / "opt/torchlift"),
            "TORCHLIFT_WORK": str(root / "opt/torchlift/work"),
            "TORCHLIFT_ENV_FILE": str(root / "etc/torchlift/job.env"),
        }

    def systemctl(self, arguments: list[str]) -> tuple[int, str]:
        """Exit status and what to print."""
        options = [word for word in arguments if word.startswith("--")]
        verb, *names = [word for word in arguments if not word.startswith("--")]
        try:
            if verb == "daemon-reload":
                return 0, ""
            if verb == "poweroff":
                self.off.set()
                return 0, ""
            units = [self._unit(name) for name in names if name != "docker.service"]
            if verb == "start" or (verb == "enable" and "--now" in options):
                for unit in units:
                    unit.start()
                return 0, ""
            if verb in ("stop", "restart"):
                for unit in units:
                    unit.stop()
                    if verb == "restart":
                        unit.start()
                return 0, ""
            if verb == "is-active":
                states = [unit.state for unit in units]
                return (0 if set(states) == {"active"} else 3), "\n".join(states)
        except UnitError as error:
            return 5, str(error)
        return 1, f"systemctl {verb}: not among what this init does"

    def journalctl(self, arguments: list[str]) -> tuple[int, str]:
        """`journalctl --unit NAME`: all that the unit printed."""
        name = arguments[arguments.index("--unit") + 1] if "--unit" in arguments else arguments[-1]
        path = self.root / "var/log" / (name if name.endswith(".service") else f"{name}.service.log")
        path = path if path.suffix == ".log" else path.with_name(f"{path.name}.log")
        return 0, path.read_text(errors="replace") if path.exists() else "-- No entries --"

    def shut_down(self) -> None:
        """Stop all units, the last started first."""
        for unit in reversed(list(self._units.values())):
            if unit.state == "active":
                print(f"Stopping {unit.name}", flush=True)
            unit.stop()

    def _unit(self, name: str) -> Unit:
        name = name if "." in name else f"{name}.service"
        with self._lock:
            if name not in self._units:
                self._units[name] = Unit(name=name, root=self.root, environment=self.environment)
            return self._units[name]


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        program, arguments = json.loads(self.rfile.readline())
        init: Init = self.server.init  # type: ignore[attr-defined]
        status, said = getattr(init, program)(arguments)
        self.wfile.write(json.dumps([status, said]).encode() + b"\n")


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def main() -> int:
    """Boot, and stay until SIGTERM, `systemctl poweroff` or the failure of the user data."""
    parser = argparse.ArgumentParser(prog="python -m stand_in.images.host", description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--user-data", type=Path, required=True)
    given = parser.parse_args()
    root = given.root.absolute()
    init = Init(root, dict(os.environ))
    signal.signal(signal.SIGTERM, lambda *_: init.off.set())
    init.socket.unlink(missing_ok=True)
    # By its folder's descriptor: the address of a socket has 108 bytes at most, which a deep root exceeds.
    folder = os.open(init.socket.parent, os.O_PATH | os.O_DIRECTORY)
    with _Server(f"/proc/self/fd/{folder}/{init.socket.name}", _Handler) as server:
        server.init = init  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status = subprocess.run(
            ["bash", str(given.user_data)], env=init.environment, stdin=subprocess.DEVNULL
        ).returncode
        if status == 0 or any(True for _ in init._units):
            init.off.wait()
        init.shut_down()
        server.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main())
