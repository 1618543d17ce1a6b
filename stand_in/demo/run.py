"""The demo: bootstrap, deploy, invoke, show, destroy, audit, against the stand-in for AWS."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from settings import load_settings, names
from stand_in.demo import data, progress, question_answering_model, without
from stand_in.demo.cdk import Cdk
from stand_in.demo.invocations import SentimentResult, invoke_sentiment
from stand_in.demo.mode import sentence
from stand_in.demo.question_answering import FOLDER, CoreResult, ask_cores
from stand_in.demo.teardown import delete_bootstrap
from stand_in.demo.text_encoding import EncoderResult, invoke_encoders
from stand_in.images import readiness
from stand_in.images.engine import remove_folder
from stand_in.images.readiness import state_folder
from stand_in.session import StandIn, stand_in
from stand_in.sweep import Inventory, Leftovers, leftovers, snapshot

DEPLOYMENT = "local"


@dataclass(kw_only=True)
class Results:
    """What the demo found out, phase by phase."""

    mode: str
    seconds: dict[str, float] = field(default_factory=dict)
    stacks: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    sentiment: SentimentResult | None = None
    cores: list[CoreResult] = field(default_factory=list)
    encoders: list[EncoderResult] = field(default_factory=list)
    leftovers: Leftovers | None = None


class Demo:
    """One run; `root` is the checkout, everything it writes is under `root/build`."""

    def __init__(self, *, root: Path, mode: str, keep: bool, console: Console) -> None:
        self._root = root
        self._build = root / "build"
        self._keep = keep
        self._console = console
        self._deployment = DEPLOYMENT
        self.results = Results(mode=mode)

    def run(self) -> Results:
        """All phases in order; whatever fails, nothing started here survives the `with` block."""
        started = time.monotonic()
        self._console.print(f"[bold]mode[/bold]  {sentence(self.results.mode)}", highlight=False)
        state_dir = self._build / "stand_in"
        # Of a run that was killed: deleting must not reach through what is mounted there.
        remove_folder(state_folder(state_dir))
        shutil.rmtree(state_dir, ignore_errors=True)
        if self.results.mode == "images":
            with self._phase("bases", "look-alikes of the base images (minutes, when they are not there yet)"):
                readiness.prepare(self._root)
        with self._phase("prepare", "the demo's models and labelled sentences"):
            data.prepare(self._build / "demo", self._root / "node_modules")
            say = partial(self._console.print, "   ", highlight=False)
            question_answering_model.prepare(
                self._build / "demo" / FOLDER, self._build / "demo" / "base-model", say=say
            )
        self._deployment = without.deployable(DEPLOYMENT, root=self._root, console=self._console)
        region = load_settings(self._deployment, root=self._root).deployment.region
        with self._phase("start", "the stand-in for AWS"):
            context = stand_in(region=region, state_dir=state_dir, root=self._root, mode=self.results.mode)
            aws = context.__enter__()
        try:
            self._against(aws)
        finally:
            context.__exit__(None, None, None)
        self.results.seconds["total"] = round(time.monotonic() - started, 1)
        return self.results

    def _against(self, aws: StandIn) -> None:
        cdk = Cdk(stand_in=aws, root=self._root, deployment=self._deployment, logs=self._build / "logs")
        before = snapshot(aws)
        with self._phase("bootstrap", "cdk bootstrap"):
            cdk.bootstrap()
        with (
            self._phase("deploy", "cdk deploy --all: train, package, serve"),
            progress.shown(self._console, aws),
        ):
            cdk.deploy()
        with self._phase("invoke", "the sentiment endpoint"):
            self.results.sentiment = invoke_sentiment(aws, DEPLOYMENT, console=self._console)
        settings = load_settings(self._deployment, root=self._root)
        if settings.question_answering is not None:
            with self._phase("ask", "the question-answering fleet"):
                self.results.cores = ask_cores(aws, settings, root=self._root, console=self._console)
        if settings.text_encoding is not None:
            with self._phase("encode", "the text-encoding endpoint"):
                self.results.encoders = invoke_encoders(aws, settings, root=self._root, console=self._console)
        self.results.stacks = stacks_of(aws)
        self.results.jobs = aws.get("/_torchlift/state")["jobs"]
        if self._keep:
            self._linger(aws)
        with self._phase("destroy", "cdk destroy --all"), progress.shown(self._console, aws):
            cdk.destroy()
        with self._phase("audit", "what is left"):
            self.results.leftovers = self._audit(aws, before)

    def _audit(self, aws: StandIn, before: Inventory) -> Leftovers:
        delete_bootstrap(aws)
        return leftovers(before, snapshot(aws))

    def _linger(self, aws: StandIn) -> None:
        exports = self._build / "demo" / "environment.sh"
        lines = [
            f"export {name}={value!r}"
            for name, value in sorted(aws.environment.items())
            if name.startswith(("AWS_", "CDK_", "PATH"))
        ]
        exports.write_text("\n".join(lines) + "\n")
        self._console.print(
            f"""
  Everything is running and stays so until you press Ctrl-C here (which destroys and audits as usual).
  From another terminal, in this folder:
    source {exports.relative_to(self._root)}     # the AWS CLI, the CDK CLI and torchlift now talk to the stand-in
    torchlift status {DEPLOYMENT}
    torchlift invoke {DEPLOYMENT} "The soup was cold and the waiter rude."
    torchlift ask {DEPLOYMENT} "When was the bridge built?" --context "The bridge was built in 1843 by Ada Dunvale."
    torchlift models list {DEPLOYMENT}
    aws cloudformation describe-stacks --output table
    cdk diff -c deployment={DEPLOYMENT}
""",
            markup=False,
            highlight=False,
        )
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            self._console.print("\n  Stopping.")

    @contextmanager
    def _phase(self, name: str, what: str) -> Iterator[None]:
        self._console.print(f"[bold]{name}[/bold]  {what} ...")
        started = time.monotonic()
        yield
        self.results.seconds[name] = round(time.monotonic() - started, 1)
        self._console.print(f"  done in {self.results.seconds[name]:.1f} s", highlight=False)


def stacks_of(aws: StandIn) -> list[dict[str, Any]]:
    """Name, status and number of resources of every stack of the app."""
    cloudformation = aws.client("cloudformation")
    return [
        {
            "name": stack["StackName"],
            "status": stack["StackStatus"],
            "resources": len(cloudformation.describe_stack_resources(StackName=stack["StackName"])["StackResources"]),
        }
        for stack in cloudformation.describe_stacks()["Stacks"]
        if stack["StackName"].startswith(names.STACK_PREFIX)
    ]


def write_report(results: Results, path: Path) -> None:
    """Validate against report.schema.json and write build/demo-report.json, whole or not at all."""
    import jsonschema

    assert results.sentiment is not None and results.leftovers is not None
    workloads: dict[str, Any] = {"sentiment": results.sentiment.as_report()}
    if results.cores:
        workloads["question-answering"] = [one.as_report() for one in results.cores]
    if results.encoders:
        workloads["text-encoding"] = [one.as_report() for one in results.encoders]
    document = {
        "schema": 1,
        "mode": results.mode,
        "stacks": results.stacks,
        "workloads": workloads,
        "seconds": results.seconds,
        "leftovers": results.leftovers.found,
    }
    schema = json.loads((Path(__file__).parent / "report.schema.json").read_text())
    jsonschema.validate(document, schema)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=2) + "\n")
    temporary.replace(path)
