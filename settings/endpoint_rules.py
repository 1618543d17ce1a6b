"""Rules over the sentiment endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from settings import hardware, names, shared_rules
from settings.endpoint_models import Challenger
from settings.errors import Problem
from settings.images import base_image
from settings.models import MOST_TEXTS
from settings.rule import Values, nearest, rule

_ENDPOINT = "sentiment.endpoint"


@rule("training", "sentiment")
def _endpoint_needs_weights(values: Values, _: Path) -> Iterator[Problem]:
    if values["sentiment"] is not None and values["training"] is None:
        yield Problem(
            key="training",
            given=None,
            reason="The endpoint serves what a [training] section says: trained here, or brought.",
            right='a [training] section; with mode = "skip" and weights_uri or sentiment.version it trains nothing',
        )


@rule(f"{_ENDPOINT}.min_instances", f"{_ENDPOINT}.initial_instances", f"{_ENDPOINT}.max_instances")
def _main_counts(values: Values, _: Path) -> Iterator[Problem]:
    low, first, high = (values[f"{_ENDPOINT}.{name}_instances"] for name in ("min", "initial", "max"))
    yield from shared_rules.counts(_ENDPOINT, low, first, high)


@rule(f"{_ENDPOINT}.challengers")
def _challenger_counts(values: Values, _: Path) -> Iterator[Problem]:
    for key, one in _challengers(values):
        yield from shared_rules.counts(key, one.min_instances, one.initial_instances, one.max_instances)


@rule(f"{_ENDPOINT}.challengers")
def _challenger_names(values: Values, _: Path) -> Iterator[Problem]:
    taken = {names.MAIN_VARIANT}
    for key, one in _challengers(values):
        if one.name in taken:
            yield Problem(
                key=f"{key}.name",
                given=one.name,
                reason="Another variant has that name.",
                right=f"a name of its own, and not {names.MAIN_VARIANT}, which is the main variant's",
            )
        taken.add(one.name)


@rule(f"{_ENDPOINT}.instance_type")
def _main_type(values: Values, _: Path) -> Iterator[Problem]:
    yield from _type(f"{_ENDPOINT}.instance_type", values[f"{_ENDPOINT}.instance_type"])


@rule(f"{_ENDPOINT}.challengers")
def _challenger_types(values: Values, _: Path) -> Iterator[Problem]:
    for key, one in _challengers(values):
        if one.instance_type is not None:
            yield from _type(f"{key}.instance_type", one.instance_type)


def _type(key: str, given: str) -> Iterator[Problem]:
    arm = [name for name, item in hardware.ML_TYPES.items() if item.arch == "arm64"]
    known = hardware.ML_TYPES.get(given)
    if known is not None and known.arch == base_image("pytorch-inference-arm64").arch:
        return
    if known is not None:
        reason = f"It is {known.arch}, and the serving image is built for arm64 (exec format error)."
    elif f"ml.{given}" in hardware.ML_TYPES:
        reason = "SageMaker's names begin with ml."
    else:
        reason = "It is not in the catalogue of Graviton hosting types (settings/hardware.py)."
    same_size = f"ml.c7g.{given.rpartition('.')[2]}"
    right = same_size if known else nearest(given if given.startswith("ml.") else f"ml.{given}", arm, "ml.c7g.4xlarge")
    yield Problem(key=key, given=given, reason=reason, right=right)


@rule(f"{_ENDPOINT}.instance_type", f"{_ENDPOINT}.challengers", f"{_ENDPOINT}.kms")
def _kms(values: Values, _: Path) -> Iterator[Problem]:
    for known in _hardware(values):
        if known.arch == "arm64" and known.local_nvme and values[f"{_ENDPOINT}.kms"]:
            yield Problem(
                key=f"{_ENDPOINT}.kms",
                given=True,
                reason=f"{known.name} has local NVMe disks, which encrypt in hardware: SageMaker refuses a key there.",
                right="false",
            )
            return


@rule(f"{_ENDPOINT}.instance_type", f"{_ENDPOINT}.challengers", f"{_ENDPOINT}.workers")
def _workers(values: Values, _: Path) -> Iterator[Problem]:
    smallest = min(_hardware(values), key=lambda item: item.vcpus, default=None)
    if smallest is not None and values[f"{_ENDPOINT}.workers"] > smallest.vcpus:
        yield Problem(
            key=f"{_ENDPOINT}.workers",
            given=values[f"{_ENDPOINT}.workers"],
            reason=f"{smallest.name} has {smallest.vcpus} vCPUs, and each worker needs one at least.",
            right=f"1 to {smallest.vcpus}",
        )


@rule(f"{_ENDPOINT}.batch_size", f"{_ENDPOINT}.max_batch_delay_ms", f"{_ENDPOINT}.latency_p99_ms_alarm")
def _batch_delay(values: Values, _: Path) -> Iterator[Problem]:
    delay, alarm = values[f"{_ENDPOINT}.max_batch_delay_ms"], values[f"{_ENDPOINT}.latency_p99_ms_alarm"]
    if values[f"{_ENDPOINT}.batch_size"] > 1 and delay >= alarm:
        yield Problem(
            key=f"{_ENDPOINT}.max_batch_delay_ms",
            given=delay,
            reason=f"A request that comes alone waits that long, and the alarm rings at {alarm} ms.",
            right=f"below {alarm}, or batch_size = 1",
        )


@rule(f"{_ENDPOINT}.batch_size", f"{_ENDPOINT}.max_batch_texts")
def _batched_texts(values: Values, _: Path) -> Iterator[Problem]:
    size, texts = values[f"{_ENDPOINT}.batch_size"], values[f"{_ENDPOINT}.max_batch_texts"]
    if size * texts > MOST_TEXTS:
        yield Problem(
            key=f"{_ENDPOINT}.batch_size",
            given=size,
            reason=f"{size} requests of max_batch_texts = {texts} are {size * texts} texts in one answer's time.",
            right=f"1 to {MOST_TEXTS // texts}, or fewer max_batch_texts",
        )


@rule("deployment.name", f"{_ENDPOINT}.instance_type", f"{_ENDPOINT}.challengers")
def _endpoint_name(values: Values, _: Path) -> Iterator[Problem]:
    own = values[f"{_ENDPOINT}.instance_type"]
    others = {one.name: one.instance_type or own for _, one in _challengers(values)}
    name = names.endpoint_name(values["deployment.name"], "sentiment", own, challengers=others)
    over = len(name) - names.ENDPOINT_NAME_LENGTH
    if over > 0:
        yield Problem(
            key="deployment.name",
            given=values["deployment.name"],
            reason=f"The endpoint's name {name} would have more than {names.ENDPOINT_NAME_LENGTH} characters.",
            right=f"a name shorter by {over}",
        )


def _challengers(values: Values) -> Iterator[tuple[str, Challenger]]:
    """Each with the start of its keys."""
    for number, one in enumerate(values[f"{_ENDPOINT}.challengers"]):
        yield f"{_ENDPOINT}.challengers[{number}]", one


def _hardware(values: Values) -> Iterator[hardware.Hardware]:
    """Of the variants whose type is in the catalogue."""
    own = values[f"{_ENDPOINT}.instance_type"]
    for name in dict.fromkeys((own, *(one.instance_type or own for _, one in _challengers(values)))):
        if name in hardware.ML_TYPES:
            yield hardware.ML_TYPES[name]
