"""What one deployment did: which jobs ran, which resources came and went, and what the endpoint answered meanwhile."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from model_code.sentiment import client as sentiment
from settings import names
from stand_in.session import StandIn

TEXT = "the film was good"
OF_A_JOB = re.compile(r"[0-9a-f]{16}")
"""In the logical id of whatever belongs to one run of a job."""
Held = dict[tuple[str, str], tuple[str, str]]
"""{(stack, logical id): (type, physical id)}"""


@dataclass(kw_only=True)
class Effect:
    """What a deployment did. Types are without `AWS::`; the resources of the jobs that ran are left out."""

    jobs: list[str]
    created: set[str]
    removed: set[str]
    replaced: set[str]
    updated: set[str]
    endpoint: str

    def cells(self) -> list[str]:
        """Columns of the table: what ran again, new, replaced, changed in place, the endpoint meanwhile."""
        return [
            ", ".join(self.jobs) or "nothing",
            _names(self.created | self.removed),
            _names(self.replaced),
            _names(self.updated),
            self.endpoint,
        ]


@dataclass
class Asked:
    """Answers of the endpoint while something else went on: (endpoint, score of the best label)."""

    answers: list[tuple[str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def told(self, before: tuple[str, str]) -> str:
        """In words: which model answered, on which endpoint. Answers of an old model after a new one's are an error."""
        assert not self.failures, self.failures[:3]
        assert len(self.answers) > 5
        seen = [before]
        for answer in self.answers:
            if answer != seen[-1]:
                assert answer not in seen, f"the old model came back: {seen}, {answer}"
                seen.append(answer)
        endpoints = {endpoint for endpoint, _ in seen}
        if len(endpoints) > 1:
            return "the old endpoint's until the parameter moved"
        return "the old model's, then the new one's" if len(seen) > 1 else "the same"


def resources(aws: StandIn) -> Held:
    """Everything that the deployment's stacks hold."""
    cloudformation = aws.client("cloudformation")
    return {
        (stack["StackName"], one["LogicalResourceId"]): (one["ResourceType"], one["PhysicalResourceId"])
        for stack in cloudformation.describe_stacks()["Stacks"]
        if stack["StackName"].startswith(names.STACK_PREFIX)
        for one in cloudformation.describe_stack_resources(StackName=stack["StackName"])["StackResources"]
    }


def touched(aws: StandIn, stacks: set[str], since: Any) -> set[tuple[str, str]]:
    """{(stack, logical id)} of what was updated in place or replaced after a time."""
    found = set()
    for stack in stacks:
        pages = aws.client("cloudformation").get_paginator("describe_stack_events").paginate(StackName=stack)
        for event in (event for page in pages for event in page["StackEvents"]):
            if event["Timestamp"] > since and event["ResourceStatus"] == "UPDATE_COMPLETE":
                found.add((stack, event["LogicalResourceId"]))
    return found


def jobs(aws: StandIn) -> list[tuple[str, str]]:
    """(job, hash) of every run, in order."""
    return [(job["job"], job["hash"]) for job in aws.get("/_torchlift/state")["jobs"]]


def answer(aws: StandIn, parameter: str) -> tuple[str, str]:
    """What a client does: read the parameter, ask the endpoint."""
    endpoint = str(aws.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])
    judged = sentiment.ask(endpoint, [TEXT], client=aws.client("sagemaker-runtime"))[0]
    return endpoint, " ".join(f"{one.label} {one.score:.3f}" for one in judged)


@contextmanager
def asked_all_the_while(
    aws: StandIn, parameter: str, ask_once: Callable[[StandIn, str], tuple[str, str]] = answer
) -> Iterator[Asked]:
    """Ask the endpoint again and again in a thread."""
    asked, done = Asked(), threading.Event()

    def ask() -> None:
        while not done.is_set():
            try:
                asked.answers.append(ask_once(aws, parameter))
            except Exception as error:
                asked.failures.append(repr(error))
            time.sleep(0.2)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield asked
    finally:
        done.set()
        thread.join(timeout=60)


def effect(before: Held, after: Held, updated: set[tuple[str, str]], ran: list[str], endpoint: str) -> Effect:
    """Compare what the stacks held before and after."""

    def kinds(keys: set[tuple[str, str]], held: Held) -> set[str]:
        return {held[key][0].removeprefix("AWS::") for key in keys if not OF_A_JOB.search(key[1])}

    same = {key for key in before.keys() & after.keys() if before[key] == after[key]}
    return Effect(
        jobs=ran,
        created=kinds(after.keys() - before.keys(), after),
        removed=kinds(before.keys() - after.keys(), before),
        replaced=kinds((before.keys() & after.keys()) - same, after),
        updated=kinds(same & updated, after),
        endpoint=endpoint,
    )


def _names(kinds: set[str]) -> str:
    return ", ".join(sorted(kinds)) or "—"
