"""The EC2 instances that a deploy starts for its jobs, as the settings have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from settings import Settings


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One instance. `section` is that of the settings that names it; `zones` are those it may start in."""

    section: str
    instance_type: str
    purchase: str
    zones: tuple[str, ...]
    ami_id: str | None
    ami_parameter: str | None


def machines(settings: Settings) -> Iterator[Machine]:
    """One for the training and one for the engine's build, where the settings have them."""
    training, encoding, zones = settings.training, settings.text_encoding, settings.network.zones
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
