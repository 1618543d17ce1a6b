"""The real CDK CLI against the stand-in."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stand_in.environment import ACCOUNT
from stand_in.session import StandIn, run


class CdkFailed(Exception):
    """A CDK command ended with an error; the message holds what it printed last and where the rest is."""


@dataclass(frozen=True, kw_only=True)
class Cdk:
    """CDK commands for one deployment; each takes at most `timeout` seconds and writes to `logs`."""

    stand_in: StandIn
    root: Path
    deployment: str
    logs: Path
    timeout: float = 1500

    def bootstrap(self) -> None:
        """`cdk bootstrap`, in a folder without cdk.json: with one the CLI would synthesize the app first."""
        with tempfile.TemporaryDirectory() as empty:
            self._run("bootstrap", "bootstrap", f"aws://{ACCOUNT}/{self.stand_in.region}", cwd=Path(empty))

    @property
    def assembly(self) -> Path:
        """What the app was synthesized to last."""
        return self.logs.parent / "cdk.out"

    def deploy(
        self, *, context: dict[str, str] | None = None, extra: tuple[str, ...] = (), assembly: Path | None = None
    ) -> str:
        """`cdk deploy --all`; returns what it printed. `assembly` is a synthesized app, which is not run then."""
        return self._run(
            "deploy",
            "deploy",
            "--all",
            "--require-approval",
            "never",
            "--progress",
            "events",
            *extra,
            context=context,
            assembly=assembly,
        )

    def diff(self, *, context: dict[str, str] | None = None, assembly: Path | None = None) -> str:
        """`cdk diff` over all stacks; returns what it printed."""
        return self._run("diff", "diff", context=context, assembly=assembly)

    def destroy(self) -> str:
        """`cdk destroy --all`; returns what it printed."""
        return self._run("destroy", "destroy", "--all", "--force")

    def _run(
        self,
        name: str,
        *arguments: str,
        cwd: Path | None = None,
        context: dict[str, str] | None = None,
        assembly: Path | None = None,
    ) -> str:
        command = ["cdk", *arguments, "--no-notices"]
        if assembly is not None:
            command += ["--app", str(assembly)]
        elif name != "bootstrap":
            command += ["--output", str(self.assembly), "-c", f"deployment={self.deployment}"]
        for key, value in (context or {}).items():
            command += ["-c", f"{key}={value}"]
        log = self.logs / f"cdk-{name}.log"
        try:
            result = run(
                command,
                environment=self.stand_in.environment,
                cwd=cwd or self.root,
                log=log,
                timeout=self.timeout,
            )
        except subprocess.TimeoutExpired:
            raise CdkFailed(f"cdk {name} did not end within {self.timeout:.0f} s. Log: {log}") from None
        if result.returncode != 0:
            tail = "\n".join(line for line in result.stdout.splitlines() if line.strip())[-2500:]
            raise CdkFailed(f"cdk {name} ended with exit code {result.returncode}:\n{tail}\nLog: {log}")
        return result.stdout
