"""Rules over the sentiment endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from settings import hardware, names
from settings.errors import Problem
from settings.images import base_image
from settings.rule import Values, nearest, rule

_ENDPOINT = "sentiment.endpoint"


@rule("training", "sentiment")
def _endpoint_needs_weights(values: Values, _: Path) -> Iterator[Problem]:
    if values["sentiment"] is not None and values["training"] is None:
        yield Problem(
            key="training",
            given=None,
            reason="The endpoint serves what a [training] section says: trained here, or brought.",
            right='a [training] section; with mode = "skip" and a weights_uri it trains nothing',
        )


@rule(f"{_ENDPOINT}.min_instances", f"{_ENDPOINT}.initial_instances", f"{_ENDPOINT}.max_instances")
def _counts(values: Values, _: Path) -> Iterator[Problem]:
    low, first, high = (values[f"{_ENDPOINT}.{name}_instances"] for name in ("min", "initial", "max"))
    if low > high:
        yield Problem(
            key=f"{_ENDPOINT}.max_instances", given=high, reason=f"min_instances is {low}.", right=f"{low} or more"
        )
    elif not low <= first <= high:
        yield Problem(
            key=f"{_ENDPOINT}.initial_instances",
            given=first,
            reason="An autoscaled variant starts within its limits.",
            right=f"{low} to {high}",
        )


@rule(f"{_ENDPOINT}.instance_type")
def _endpoint_type(values: Values, _: Path) -> Iterator[Problem]:
    given = values[f"{_ENDPOINT}.instance_type"]
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
    yield Problem(key=f"{_ENDPOINT}.instance_type", given=given, reason=reason, right=right)


@rule(f"{_ENDPOINT}.instance_type", f"{_ENDPOINT}.kms")
def _kms(values: Values, _: Path) -> Iterator[Problem]:
    known = hardware.ML_TYPES.get(values[f"{_ENDPOINT}.instance_type"])
    if known is not None and known.arch == "arm64" and known.local_nvme and values[f"{_ENDPOINT}.kms"]:
        yield Problem(
            key=f"{_ENDPOINT}.kms",
            given=True,
            reason=f"{known.name} has local NVMe disks, which encrypt in hardware; SageMaker refuses a KMS key there.",
            right="false",
        )


@rule(f"{_ENDPOINT}.instance_type", f"{_ENDPOINT}.workers")
def _workers(values: Values, _: Path) -> Iterator[Problem]:
    known = hardware.ML_TYPES.get(values[f"{_ENDPOINT}.instance_type"])
    if known is not None and values[f"{_ENDPOINT}.workers"] > known.vcpus:
        yield Problem(
            key=f"{_ENDPOINT}.workers",
            given=values[f"{_ENDPOINT}.workers"],
            reason=f"{known.name} has {known.vcpus} vCPUs, and each worker needs one at least.",
            right=f"1 to {known.vcpus}",
        )


@rule("deployment.name", f"{_ENDPOINT}.instance_type")
def _endpoint_name(values: Values, _: Path) -> Iterator[Problem]:
    name = names.endpoint_name(values["deployment.name"], "sentiment", values[f"{_ENDPOINT}.instance_type"])
    over = len(name) - names.ENDPOINT_NAME_LENGTH
    if over > 0:
        yield Problem(
            key="deployment.name",
            given=values["deployment.name"],
            reason=f"The endpoint's name {name} would have more than {names.ENDPOINT_NAME_LENGTH} characters.",
            right=f"a name shorter by {over}",
        )
