"""Rules over the training job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from settings import hardware, shared_rules
from settings.errors import Problem
from settings.models import GPU_AMI_GIB
from settings.rule import Values, nearest, rule


@rule("network.zones", "training.zones")
def _training_zones(values: Values, _: Path) -> Iterator[Problem]:
    yield from shared_rules.zones("training.zones", values["training.zones"], values["network.zones"])


@rule("training.instance_type", "training.mode")
def _training_type(values: Values, _: Path) -> Iterator[Problem]:
    given = values["training.instance_type"]
    if values["training.mode"] == "skip" or given in hardware.TRAINING_TYPES:
        return
    if given in hardware.EC2_TYPES:
        reason = "The training image needs an NVIDIA GPU, and this type has none."
    elif given.startswith("ml."):
        reason = "It is a SageMaker type; training runs on EC2."
    else:
        reason = "It is not in the catalogue of instance types (settings/hardware.py)."
    right = nearest(given.removeprefix("ml."), hardware.TRAINING_TYPES, "one of " + ", ".join(hardware.TRAINING_TYPES))
    yield Problem(key="training.instance_type", given=given, reason=reason, right=right)


@rule("training.root_volume_gib", "training.mode")
def _root_volume(values: Values, _: Path) -> Iterator[Problem]:
    given = values["training.root_volume_gib"]
    if values["training.mode"] != "skip" and given < GPU_AMI_GIB:
        yield Problem(
            key="training.root_volume_gib",
            given=given,
            reason="The GPU Deep Learning AMI, the training image and checkpoints do not fit.",
            right=f"{GPU_AMI_GIB} or more",
        )


@rule("training.deadline_minutes")
def _deadline(values: Values, _: Path) -> Iterator[Problem]:
    yield from shared_rules.deadline("training.deadline_minutes", values["training.deadline_minutes"])


@rule("training.mode", "training.weights_uri", "sentiment")
def _skip(values: Values, _: Path) -> Iterator[Problem]:
    brought = values["training.weights_uri"]
    version = values["sentiment"].version if values["sentiment"] is not None else None
    if values["training.mode"] != "skip" or (brought is None) != (version is None):
        return
    if brought is None:
        yield Problem(
            key="training.weights_uri",
            given=None,
            reason='Mode "skip" trains nothing.',
            right="s3://bucket/prefix/ with weights, or sentiment.version with a version that was trained before",
        )
    else:
        yield Problem(
            key="training.weights_uri",
            given=brought,
            reason=f"sentiment.version says to serve {version}.",
            right="one of the two",
        )


@rule("training.mode", "training.weights_uri", "training.base_model", "training.data")
def _mode(values: Values, _: Path) -> Iterator[Problem]:
    if values["training.mode"] == "skip":
        return
    if values["training.weights_uri"] is not None:
        yield Problem(
            key="training.weights_uri",
            given=values["training.weights_uri"],
            reason=f'Mode "{values["training.mode"]}" makes its own weights.',
            right='no weights_uri, or mode = "skip"',
        )
    for key in ("training.base_model", "training.data"):
        if values[key] is None:
            yield Problem(
                key=key,
                given=None,
                reason="Training needs it.",
                right="hf://…@revision, s3://bucket/prefix/ or a local folder",
            )


@rule("training.mode", "training.ami_id", "training.ami_parameter")
def _ami(values: Values, _: Path) -> Iterator[Problem]:
    if values["training.mode"] == "skip":
        return
    yield from shared_rules.machine_image(
        "training.ami_id", values["training.ami_id"], values["training.ami_parameter"]
    )


@rule("training.mode", "training.purchase", "training.capacity_reservation_id")
def _purchase(values: Values, _: Path) -> Iterator[Problem]:
    purchase, reservation = values["training.purchase"], values["training.capacity_reservation_id"]
    if purchase == "capacity-block" and reservation is None:
        yield Problem(
            key="training.capacity_reservation_id",
            given=None,
            reason="A capacity block is bought beforehand and named by its reservation.",
            right="the cr-… id of the block",
        )
    if purchase == "spot" and reservation is not None:
        yield Problem(
            key="training.capacity_reservation_id",
            given=reservation,
            reason="Spot instances do not run in a reservation.",
            right='no reservation, or purchase = "on-demand"',
        )
    if purchase == "spot" and values["training.mode"] == "interactive":
        yield Problem(
            key="training.purchase",
            given=purchase,
            reason="A development box on Spot disappears with the work on it.",
            right='"on-demand" or "capacity-block"',
        )


@rule("training.purchase", "training.instance_type", "training.mode")
def _capacity_block_type(values: Values, _: Path) -> Iterator[Problem]:
    given = values["training.instance_type"]
    if values["training.mode"] == "skip" or values["training.purchase"] != "capacity-block":
        return
    if given in hardware.TRAINING_TYPES and given not in hardware.CAPACITY_BLOCK_TYPES:
        yield Problem(
            key="training.instance_type",
            given=given,
            reason="EC2 sells no capacity blocks of this type.",
            right="one of " + ", ".join(hardware.CAPACITY_BLOCK_TYPES) + ', or purchase = "on-demand"',
        )


@rule("training.capacity_reservation_id", "training.zones", "network.zones", "training.mode")
def _reservation_zone(values: Values, _: Path) -> Iterator[Problem]:
    zones = values["training.zones"]
    if values["training.mode"] == "skip" or values["training.capacity_reservation_id"] is None:
        return
    if zones is None or len(zones) != 1:
        yield Problem(
            key="training.zones",
            given=zones and list(zones),
            reason="A capacity reservation lies in one zone; a launch anywhere else fails.",
            right="the reservation's zone alone, one of " + ", ".join(values["network.zones"]),
        )


for _key in ("training.base_model", "training.data"):
    shared_rules.source_rule(_key)
