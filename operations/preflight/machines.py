"""The EC2 instances that a deploy starts, for jobs and for the fleet, as the settings have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from settings import Settings


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One or more instances. `section` is that of the settings that names them; `zones` are those they may start in."""

    section: str
    instance_type: str
    purchase: str
    zones: tuple[str, ...]
    ami_id: str | None
    ami_parameter: str | None
    instances: int = 1


def machines(settings: Settings) -> Iterator[Machine]:
    """For the training, the engine's build and the fleet at its largest, where the settings have them."""
    training, encoding, zones = settings.training, settings.text_encoding, settings.network.zones
    answering = settings.question_answering
    if training is not None and training.mode != "skip":
        yield Machine(
            section="training",
            instance_type=training.instance_type,
            purchase=training.purchase,
            zones=tuple(training.zones or zones),
            ami_id=training.ami_id,
            ami_parameter=training.ami_parameter,
        )
    if encoding is not None:
        yield Machine(
            section="text_encoding",
            instance_type=encoding.build_instance_type,
            purchase=encoding.purchase,
            zones=tuple(encoding.zones or zones),
            ami_id=encoding.ami_id,
            ami_parameter=encoding.ami_parameter,
        )
    if answering is not None:
        yield Machine(
            section="question_answering",
            instance_type=answering.instance_type,
            purchase=answering.purchase,
            zones=tuple(answering.zones or zones),
            ami_id=answering.ami_id,
            ami_parameter=answering.ami_parameter,
            instances=answering.max_instances,
        )
