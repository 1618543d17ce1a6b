"""The processes of one Inferentia host: a server for each core, and the host's nginx in front of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stand_in.executor.balancer import Balancer, cores_route
from stand_in.executor.processes import Child, spawn
from stand_in.executor.servers import free_ports
from stand_in.executor.site import Site
from stand_in.executor.state import ProcessState

RESTART_SECONDS = 1.0
"""RestartSec of hosts/inferentia/torchlift-server@.service."""
READY_SECONDS = "300"


def find_nginx() -> str | None:
    """The program, if this machine has it."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/bin")


class Host:
    """Processes that are started again when they end, as their units would; `stop()` ends them all."""

    def __init__(
        self,
        *,
        site: Site,
        name: str,
        bundle: Path,
        folder: Path,
        access: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        """Start everything.

        :param bundle: the unpacked source bundle, with hosts/inferentia/
        :param folder: for the host's files
        :param access: the variables of an AWS client, with the host's role; `environment` is that of the servers
        """
        self._site = site
        self._name = name
        self._folder = folder
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        cores = int(environment["TORCHLIFT_CORES"])
        self.ports = free_ports(cores)
        self.restarts = [0] * cores
        self.log = site.log_path(name)
        self._commands: list[Callable[[], Child]] = [
            self._server(core, {**access, **environment}) for core in range(cores)
        ]
        self.proxy = "nginx"
        self._balancer: Balancer | None = None
        binary = find_nginx()
        if binary is None:
            self.proxy = "a loopback balancer (there is no nginx)"
            self._balancer = Balancer(cores_route(self.ports), none=(404, "there is no such core"))
            self.port = self._balancer.port
        else:
            (self.port,) = free_ports(1)
            self._commands.append(self._nginx(binary, bundle, environment))
            self.proxy = subprocess.run([binary, "-v"], capture_output=True, text=True, check=False).stderr.strip()
        self.children = [self._started(number) for number in range(len(self._commands))]
        threading.Thread(target=self._restart, name=name, daemon=True).start()

    def cores(self) -> list[dict[str, Any]]:
        """For `/_torchlift/state`."""
        return [
            {"core": core, "port": port, "pid": self.children[core].pid, "restarts": self.restarts[core]}
            for core, port in enumerate(self.ports)
        ]

    def ended(self) -> str:
        """Which process has ended, or nothing; before the host is in service that is the end of the boot."""
        for number, child in enumerate(list(self.children)):
            if (status := child.poll()) is not None:
                return f"{self._what(number)} ended with status {status}"
        return ""

    def stop(self) -> None:
        """End all processes: servers finish what they have."""
        self._stopped.set()
        with self._lock:
            children = list(self.children)
        threads = [threading.Thread(target=child.stop, daemon=True) for child in children]
        for thread in threads:
            thread.start()
        for thread, child in zip(threads, children, strict=True):
            thread.join()
            self._site.registry.process_ended(child.pid)
        if self._balancer:
            self._balancer.close()

    def _server(self, core: int, environment: Mapping[str, str]) -> Callable[[], Child]:
        variables = {
            **environment,
            "PYTHONPATH": str(self._site.repo_root),
            "NEURON_RT_VISIBLE_CORES": str(core),
            "TORCHLIFT_HOST": "127.0.0.1",
            "TORCHLIFT_PORT": str(self.ports[core]),
            "TORCHLIFT_READY_TIMEOUT_SECONDS": READY_SECONDS,
            "TORCHLIFT_CACHE_DIR": str(self._folder / "models"),
        }
        work = self._folder / "work"
        work.mkdir(parents=True, exist_ok=True)
        return lambda: spawn([sys.executable, "-m", "model_code.serving"], env=variables, cwd=work, log=self.log)

    def _nginx(self, binary: str, bundle: Path, environment: Mapping[str, str]) -> Callable[[], Child]:
        """The configuration that the host itself would make, for these ports."""
        state = self._folder / "nginx"
        state.mkdir(parents=True)
        made = subprocess.run(
            [
                sys.executable, str(bundle / "hosts/inferentia/nginx_config.py"),
                "--ports", *map(str, self.ports), "--listen", f"127.0.0.1:{self.port}", "--state", str(state),
                "--max-body-bytes", environment.get("TORCHLIFT_MAX_BODY_BYTES", "1000000"),
                "--max-timeout-ms", environment.get("TORCHLIFT_MAX_TIMEOUT_MS", "60000"),
            ],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        (self._folder / "nginx.conf").write_text(made.stdout)
        # Root's nginx would become somebody who may not read this folder.
        user = ["-g", "user root;"] if os.geteuid() == 0 else []
        command = [binary, "-e", "stderr", "-c", str(self._folder / "nginx.conf"), *user]
        return lambda: spawn(command, env={"PATH": os.environ["PATH"]}, cwd=self._folder, log=self.log)

    def _what(self, number: int) -> str:
        return f"the server of core {number}" if number < len(self.ports) else "nginx"

    def _started(self, number: int) -> Child:
        child = self._commands[number]()
        port = self.ports[number] if number < len(self.ports) else self.port
        what = f"{self._name}: {self._what(number)}"
        self._site.registry.process_started(ProcessState(pid=child.pid, what=what, port=port))
        return child

    def _restart(self) -> None:
        while not self._stopped.wait(0.2):
            for number, child in enumerate(self.children):
                if child.poll() is None:
                    continue
                self._site.registry.process_ended(child.pid)
                time.sleep(RESTART_SECONDS)
                with self._lock:
                    if self._stopped.is_set():
                        return
                    self.children[number] = self._started(number)
                if number < len(self.ports):
                    self.restarts[number] += 1
