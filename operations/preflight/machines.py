"""The EC2 instances that a deploy starts, for jobs and for the fleet, as the settings have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from settings import Settings
from settings.models import Training
from settings.question_answering_models import QuestionAnswering
from settings.text_encoding_models import TextEncoding


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
    training, encoding, answering = settings.training, settings.text_encoding, settings.question_answering

    def of(
        section: str, named: Training | TextEncoding | QuestionAnswering, instance_type: str, instances: int = 1
    ) -> Machine:
        return Machine(
            section=section,
            instance_type=instance_type,
            purchase=named.purchase,
            zones=tuple(named.zones or settings.network.zones),
            ami_id=named.ami_id,
            ami_parameter=named.ami_parameter,
            instances=instances,
        )

    if training is not None and training.mode != "skip":
        yield of("training", training, training.instance_type)
    if encoding is not None:
        yield of("text_encoding", encoding, encoding.build_instance_type)
    if answering is not None:
        yield of("question_answering", answering, answering.instance_type, answering.max_instances)
