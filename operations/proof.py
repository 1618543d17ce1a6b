"""`torchlift prove`: show on a real account what this project's own tests cannot, and write down what was seen."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from operations.account import Account
from operations.asking import confirmed
from operations.failure import CommandFailed
from operations.teardown import cdk
from settings import REPO_ROOT, Settings

REPORT = REPO_ROOT / "build" / "proof"
DEPLOY = ("deploy", "--all", "--require-approval", "never", "--progress", "events")
MODELS_ASKED = 2
"""Of a multi-model endpoint; the second shows that one is not the other's."""
TEXTS = ("The soup was cold and the waiter rude.", "What a lovely evening!")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command, what it shows when it succeeds, and whether the others make sense after its failure."""

    claim: str
    command: list[str]
    needed: bool = True


def prove(arguments: argparse.Namespace, settings: Settings, console: Console) -> int:
    """Deploy a deployment for real, ask it, destroy it, and write a report of what was shown.

    It costs what the deployment costs while it runs: with `trial` some dollars. Each step's whole output is in
    build/proof/<deployment>/; the report, report.md, says for each claim whether it was seen and how long it took.
    Nothing is destroyed when a step fails, so that you can look: `torchlift teardown <deployment>` does it.

    example: torchlift prove trial

    IAM: what `preflight`, `cdk deploy`, `status`, `invoke`, `models`, `encode` and `teardown` need
    """
    account = Account(settings)
    if account.stacks():
        raise CommandFailed(f"deployment {account.deployment} is there already: a proof begins with nothing.")
    question = f"Deploy {account.deployment} in {account.region}, build, serve, and destroy it? This costs money."
    if not arguments.yes and not confirmed(console, question):
        raise CommandFailed("nothing was deployed.")
    folder = REPORT / account.deployment
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Step, str, float]] = []
    for number, step in enumerate(steps(arguments.deployment, settings), start=1):
        console.print(f"{number}. {step.claim}", markup=False, highlight=False)
        started = time.monotonic()
        status = _run(step.command, folder / f"{number}.log")
        rows.append((step, "seen" if status == 0 else f"FAILED, exit {status}", time.monotonic() - started))
        console.print(f"   {rows[-1][1]} after {rows[-1][2]:.0f} s", markup=False, highlight=False)
        _write(folder / "report.md", account, rows)
        if status != 0 and step.needed:
            console.print(f"   Its output: {folder / f'{number}.log'}", markup=False, highlight=False)
            break
    console.print(_table(rows))
    console.print(f"Report: {folder / 'report.md'}", markup=False, highlight=False)
    return 0 if all(seen == "seen" for _, seen, _ in rows) else 1


def steps(deployment: str, settings: Settings) -> list[Step]:
    """What is run, in order, for the workloads that the settings have."""
    torchlift = [sys.executable, "-m", "operations.cli"]

    return [
        Step(
            claim="The account has what the deployment needs: quotas, capacity offers, bootstrap, AMI",
            command=[*torchlift, "preflight", deployment],
            needed=False,
        ),
        Step(
            claim="AWS takes the templates; images build; user data boots; roles suffice; training trains and the "
            "engine is built on its GPU, and both signal and end; the endpoints serve the right answers "
            "(VerifyEndpoint), the servers of a fleet before their instance signals",
            command=cdk.command(*DEPLOY, deployment=deployment),
        ),
        Step(claim="The stacks say what they put out", command=[*torchlift, "status", deployment]),
        *_questions(torchlift, deployment, settings),
        Step(
            claim="What AWS made is what the templates say: nothing is left to change",
            command=cdk.command("diff", "--fail", deployment=deployment),
            needed=False,
        ),
        Step(
            claim="A second deploy does nothing",
            command=cdk.command(*DEPLOY, deployment=deployment),
            needed=False,
        ),
        Step(
            claim="Everything goes, network interfaces too, and nothing is left",
            command=[*torchlift, "teardown", deployment, "--yes"],
        ),
    ]


def _questions(torchlift: list[str], deployment: str, settings: Settings) -> Iterator[Step]:
    if settings.sentiment is not None:
        command = [*torchlift, "invoke", deployment, *TEXTS]
        yield Step(claim="A client gets answers of the sentiment endpoint through the API", command=command)
    encoding = settings.text_encoding
    if encoding is not None and encoding.mode == "multi-model":
        yield Step(
            claim="The models of the multi-model endpoint lie in its prefix, each with its engine",
            command=[*torchlift, "models", "list", deployment],
        )
        for name in encoding.model_names[:MODELS_ASKED]:
            yield Step(
                claim=f"Triton loads the engine of {name} on first use and encodes by it",
                command=[*torchlift, "encode", deployment, name, *TEXTS],
            )
    if settings.question_answering is not None:
        # Its load balancer is internal, so it is the hosts that ask: they signal after real answers, in the deploy.
        yield Step(
            claim="The models of the Inf2 fleet are those that its servers follow",
            command=[*torchlift, "models", "show", deployment],
        )


def _run(command: list[str], log: Path) -> int:
    environment = os.environ | {"CDK_DISABLE_CLI_TELEMETRY": "true", "PYTHONUNBUFFERED": "1", "PATH": cdk.search_path()}
    with log.open("wb") as stream:
        return subprocess.run(
            command, cwd=REPO_ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False
        ).returncode


def _table(rows: list[tuple[Step, str, float]]) -> Table:
    table = Table("claim", "seen", "seconds", title="What was shown")
    for step, seen, seconds in rows:
        table.add_row(step.claim, seen, f"{seconds:.0f}")
    return table


def _write(path: Path, account: Account, rows: list[tuple[Step, str, float]]) -> None:
    lines = [f"# What was shown of deployment {account.deployment} in {account.region}", ""]
    lines += ["| claim | seen | seconds | command |", "|---|---|---|---|"]
    lines += [
        f"| {step.claim} | {seen} | {seconds:.0f} | `{' '.join([Path(step.command[0]).name, *step.command[1:]])}` |"
        for step, seen, seconds in rows
    ]
    path.write_text("\n".join(lines) + "\n")
