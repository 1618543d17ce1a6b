"""Direct mode: which command stands for a job, and which program for a serving image. The one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

IN_BUNDLE = ""
"""The job's code is all in its source bundle."""
IN_IMAGE = "image"
"""The job's code is in the image that an earlier job built; here the checkout takes the image's place."""

RUN_JOB = ("bash", "scripts/run_job.sh")
BUILD_IMAGE = "python -m stand_in.executor.direct_image"


@dataclass(frozen=True)
class DirectJob:
    """A command, run in the unpacked source bundle, with `<checkout>/<venv>/bin` first on PATH."""

    command: tuple[str, ...] = RUN_JOB
    venv: str = ".venv"
    instead: str = ""
    """What takes the place of TORCHLIFT_COMMAND, for what cannot be done without Docker."""
    code: str = IN_BUNDLE
    variables: Mapping[str, str] = field(default_factory=dict)
    """More of the job's environment."""
    here: Mapping[str, str] = field(default_factory=dict)
    """More of it in images mode, too: what tells the job that this machine lacks a program, which no image here has."""


JOBS = {
    "hub-mirror": DirectJob(),
    "sentiment-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
    "sentiment-train": DirectJob(code=IN_IMAGE),
    "serving-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
    "sentiment-package": DirectJob(),
    "triton-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
    "text-encoding-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
    "text-encoding-engine": DirectJob(code=IN_IMAGE, here={"TORCHLIFT_DEVICE": "cpu"}),
    "question-answering-trace-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
    # The command's own launcher is Docker, and it compiles for Inf2.
    "question-answering-trace": DirectJob(
        code=IN_IMAGE, variables={"TORCHLIFT_LAUNCHER": ""}, here={"TORCHLIFT_MORE_OPTIONS": "--backend=cpu"}
    ),
    "question-answering-models": DirectJob(),
    "question-answering-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
    "nginx-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
    "neuron-monitor-image": DirectJob(instead=BUILD_IMAGE, code=IN_IMAGE),
}


@dataclass(frozen=True)
class DirectServer:
    """A serving program for containers whose image is in one of `repositories`.

    CloudFormation names our own from the construct: `sentiment-serving` is `…-sentimentservingrepository<hash>-…`.
    """

    program: str
    repositories: tuple[str, ...]
    probe: bytes = b""
    """A request that a working model answers with 200: `/ping` proves nothing. Empty: the program makes its own."""


SERVERS = (
    DirectServer(
        program="TorchServe",
        repositories=("sentiment-serving", "pytorch-inference", "pytorch-inference-arm64"),
        probe=json.dumps({"inputs": "Is the model there?"}).encode(),
    ),
    DirectServer(program="Triton", repositories=("triton", "sagemaker-tritonserver")),
)


class NoDirectMode(LookupError):
    """Direct mode has no line for this job or image; the message says what to do."""


def job(name: str) -> DirectJob:
    """The line of a job (its tag `torchlift:job`). Raises NoDirectMode."""
    if name not in JOBS:
        known = ", ".join(sorted(JOBS))
        raise NoDirectMode(
            f"direct mode does not know the job '{name}' (it knows {known}): add a line to stand_in/executor/direct.py"
        )
    return JOBS[name]


def here(name: str) -> Mapping[str, str]:
    """What tells a job in either mode that this machine lacks something; nothing for one without a line."""
    return JOBS[name].here if name in JOBS else {}


def server(image: str) -> DirectServer:
    """The program for a container image's URI. Raises NoDirectMode."""
    repository = image.split("@")[0].rsplit("/", 1)[-1].split(":")[0]
    for one in SERVERS:
        if any(_named_after(known, repository) for known in one.repositories):
            return one
    raise NoDirectMode(
        f"direct mode has no program for the image '{image}': add its repository to stand_in/executor/direct.py"
    )


def _named_after(known: str, repository: str) -> bool:
    """Whether a repository has this name, ends in it, or got its name from CloudFormation (by its logical id)."""
    by_logical_id = known.replace("-", "") + "repository" in repository
    return repository == known or repository.endswith(f"-{known}") or by_logical_id
