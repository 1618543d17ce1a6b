"""Rules over question answering: the compiled shapes, the fleet, and what fits on a NeuronCore."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from settings import inferentia, shared_rules
from settings.errors import Problem
from settings.hardware import EC2_TYPES
from settings.question_answering_models import FLEET_DISK_GIB, LEAST_TOKENS, MOST_ROWS, MOST_SHAPES, MOST_TOKENS
from settings.rule import Values, nearest, rule

_SECTION = "question_answering"
_COUNTS = tuple(f"{_SECTION}.{name}_instances" for name in ("min", "max"))
_OTHER_DEVICES = {
    "inf1": "Neuron's SDK no longer supports Inf1 (2.31, June 2026).",
    "trn": "The model is compiled for Inf2.",
}


@rule(f"{_SECTION}.instance_type")
def _type(values: Values, _: Path) -> Iterator[Problem]:
    given = values[f"{_SECTION}.instance_type"]
    if given in inferentia.INF2_TYPES:
        return
    if given.startswith("ml."):
        reason = "It is a SageMaker type; the fleet runs on EC2."
    elif given in EC2_TYPES:
        reason = "It has no NeuronCores."
    else:
        reason = next(
            (text for family, text in _OTHER_DEVICES.items() if given.startswith(family)),
            "It is not in the catalogue of instance types (settings/hardware.py).",
        )
    right, plain = "one of " + ", ".join(inferentia.INF2_TYPES), given.removeprefix("ml.")
    if plain.startswith("inf"):
        right = nearest(plain, inferentia.INF2_TYPES, right)
    yield Problem(key=f"{_SECTION}.instance_type", given=given, reason=reason, right=right)


@rule(*_COUNTS)
def _counts(values: Values, _: Path) -> Iterator[Problem]:
    low, high = (values[key] for key in _COUNTS)
    if high < low + 1:
        yield Problem(
            key=_COUNTS[1],
            given=high,
            reason=f"min_instances is {low}, and an update starts a new instance before it ends an old one.",
            right=f"{low + 1} or more",
        )


@rule(f"{_SECTION}.instance_type", f"{_SECTION}.num_cores")
def _cores(values: Values, _: Path) -> Iterator[Problem]:
    machine, given = values[f"{_SECTION}.instance_type"], values[f"{_SECTION}.num_cores"]
    if machine not in inferentia.INF2_TYPES or given == "all":
        return
    cores = inferentia.cores_of(machine)
    if given > cores:
        yield Problem(
            key=f"{_SECTION}.num_cores",
            given=given,
            reason=f"{machine} has {cores} NeuronCores.",
            right=f'1 to {cores}, or "all"',
        )


def _sizes(name: str, most: int) -> None:
    key = f"{_SECTION}.{name}"

    @rule(key)
    def check(values: Values, _: Path) -> Iterator[Problem]:
        given = list(values[key])
        if any(a >= b for a, b in pairwise(given)):
            right = "[" + ", ".join(map(str, sorted({size for size in given if size <= most}))) + "]"
            yield Problem(key=key, given=given, reason="They must rise, each once.", right=right)
        elif given[-1] > most:
            yield Problem(key=key, given=given, reason=f"{given[-1]} is more than {most}.", right=f"{most} at most")
        elif name == "lengths" and given[-1] < LEAST_TOKENS:
            yield Problem(
                key=key,
                given=given,
                reason=f"The largest is {given[-1]} tokens; a question and its context need more.",
                right=f"a largest length of {LEAST_TOKENS} to {most}",
            )


_sizes("batch_sizes", MOST_ROWS)
_sizes("lengths", MOST_TOKENS)


@rule(f"{_SECTION}.batch_sizes", f"{_SECTION}.lengths")
def _shapes(values: Values, _: Path) -> Iterator[Problem]:
    sizes, lengths = values[f"{_SECTION}.batch_sizes"], values[f"{_SECTION}.lengths"]
    if len(sizes) * len(lengths) > MOST_SHAPES:
        yield Problem(
            key=f"{_SECTION}.batch_sizes",
            given=list(sizes),
            reason=f"With {len(lengths)} lengths that is {len(sizes) * len(lengths)} shapes: each takes minutes to "
            "compile, and a copy of the weights on the device.",
            right=f"{MOST_SHAPES} shapes at most, so {max(1, MOST_SHAPES // len(lengths))} batch sizes",
        )


@rule(f"{_SECTION}.stride", f"{_SECTION}.max_answer_tokens", f"{_SECTION}.lengths")
def _windows(values: Values, _: Path) -> Iterator[Problem]:
    most = max(values[f"{_SECTION}.lengths"])
    if most < LEAST_TOKENS:
        return
    stride, answer = values[f"{_SECTION}.stride"], values[f"{_SECTION}.max_answer_tokens"]
    if stride > most // 2:
        yield Problem(
            key=f"{_SECTION}.stride",
            given=stride,
            reason=f"Windows are {most} tokens long, and neighbours share half of that at most.",
            right=f"0 to {most // 2}",
        )
    if answer > most // 2:
        yield Problem(
            key=f"{_SECTION}.max_answer_tokens",
            given=answer,
            reason=f"Windows are {most} tokens long, with the question in them.",
            right=f"1 to {most // 2}",
        )


@rule(f"{_SECTION}.compiler_args")
def _compiler_args(values: Values, _: Path) -> Iterator[Problem]:
    key, given = f"{_SECTION}.compiler_args", values[f"{_SECTION}.compiler_args"]
    try:
        parts = shlex.split(given)
    except ValueError as error:
        yield Problem(
            key=key, given=given, reason=f"{str(error).capitalize()}.", right="arguments as in a shell, such as -O2"
        )
        return
    if any(part.partition("=")[0] == "--target" for part in parts):
        yield Problem(
            key=key, given=given, reason="Torchlift compiles for the fleet, --target inf2.", right="no --target"
        )


@rule(f"{_SECTION}.queue_rows", f"{_SECTION}.batch_sizes")
def _queue(values: Values, _: Path) -> Iterator[Problem]:
    given, most = values[f"{_SECTION}.queue_rows"], max(values[f"{_SECTION}.batch_sizes"])
    if given < most:
        yield Problem(
            key=f"{_SECTION}.queue_rows",
            given=given,
            reason=f"The largest batch is {most} rows and would never fill.",
            right=f"{most} or more",
        )


@rule(f"{_SECTION}.timeout_ms", f"{_SECTION}.batch_wait_ms", f"{_SECTION}.latency_p99_ms_alarm")
def _times(values: Values, _: Path) -> Iterator[Problem]:
    timeout, wait = values[f"{_SECTION}.timeout_ms"], values[f"{_SECTION}.batch_wait_ms"]
    alarm = values[f"{_SECTION}.latency_p99_ms_alarm"]
    if alarm >= timeout:
        yield Problem(
            key=f"{_SECTION}.latency_p99_ms_alarm",
            given=alarm,
            reason=f"Requests are given up after timeout_ms = {timeout}: the alarm would never ring.",
            right=f"below {timeout}",
        )
    elif wait >= alarm:
        yield Problem(
            key=f"{_SECTION}.batch_wait_ms",
            given=wait,
            reason=f"A request may wait that long, and the alarm rings at {alarm} ms.",
            right=f"below {alarm}",
        )


def _in_region(name: str) -> None:
    key = f"{_SECTION}.{name}"

    @rule(key, "deployment.region", "deployment.account")
    def check(values: Values, _: Path) -> Iterator[Problem]:
        given = values[key]
        if given is None:
            return
        _, _, _, region, account, *_ = given.split(":")
        here, ours = values["deployment.region"], values["deployment.account"]
        if region != here:
            yield Problem(key=key, given=given, reason=f"It is in {region}.", right=f"one in {here}")
        elif ours is not None and name == "certificate_arn" and account != ours:
            yield Problem(
                key=key,
                given=given,
                reason=f"It belongs to account {account}; a load balancer takes certificates of its own.",
                right=f"one of account {ours}",
            )


_in_region("certificate_arn")
_in_region("token_secret_arn")


@rule(*(f"{_SECTION}.{key}" for key in (
    "instance_type", "num_cores", "num_models_per_server", "weights_mib", "dtype", "batch_sizes", "lengths",
)))  # fmt: skip
def _fits(values: Values, _: Path) -> Iterator[Problem]:
    machine, models = values[f"{_SECTION}.instance_type"], values[f"{_SECTION}.num_models_per_server"]
    shapes = len(values[f"{_SECTION}.batch_sizes"]) * len(values[f"{_SECTION}.lengths"])
    cores = values[f"{_SECTION}.num_cores"]
    if machine not in inferentia.INF2_TYPES or shapes > MOST_SHAPES:
        return
    if cores != "all" and cores > inferentia.cores_of(machine):
        return
    weights = values[f"{_SECTION}.weights_mib"] / (2 if values[f"{_SECTION}.dtype"] == "bfloat16" else 1)
    found = inferentia.advise(machine, models, weights_mib=weights, shapes=shapes, num_cores=cores)
    if not found.refused:
        return
    other = [
        name
        for name in inferentia.INF2_TYPES
        if not inferentia.advise(name, models, weights_mib=weights, shapes=shapes).refused
    ]
    ways = [f"{found.most_models} at most"] if found.most_models else []
    ways += [f"instance_type = {other[0]!r}".replace("'", '"')] if other else []
    yield Problem(
        key=f"{_SECTION}.num_models_per_server",
        given=models,
        reason=f"{models} x {shapes} shapes x {weights:g} MiB of weights: {' '.join(found.refused)}",
        right=", or ".join([*ways, "fewer batch_sizes or lengths"]),
    )


shared_rules.machine_rules(_SECTION)
shared_rules.root_volume_rule(
    _SECTION, least_gib=FLEET_DISK_GIB, reason="The Neuron AMI, the serving image and models from S3 do not fit."
)
shared_rules.source_rule(f"{_SECTION}.model")
