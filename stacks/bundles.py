"""Which files each job runs. A job's hash covers exactly these, so a file too many costs a training run some day.

A test compares the lists of modules with what the entry points import.
"""

from __future__ import annotations

from typing import Final

SCRIPTS: Final = "scripts"
HOST: Final = "hosts/instance_job"
BOX: Final = "hosts/interactive"
ONLY_FOR_IMAGES: Final = ("build_image.sh",)
"""Left out of the bundles of jobs that build no image."""


def _modules(*names: str) -> tuple[str, ...]:
    """Files of model_code by module name, with the packages they lie in."""
    packages = ["model_code/__init__.py"]
    if any(name.startswith("sentiment.") for name in names):
        packages.append("model_code/sentiment/__init__.py")
    return (*packages, *(f"model_code/{name.replace('.', '/')}.py" for name in names))


HUB_MIRROR: Final = _modules("hub_mirror", "sources", "sentiment.data", "sentiment.labels")

TRAINING: Final = _modules(
    "argument_types",
    "pretrained",
    "sources",
    "sentiment.arguments",
    "sentiment.batches",
    "sentiment.buckets",
    "sentiment.checkpoints",
    # Answers the probe as the endpoint will.
    "sentiment.classifier",
    "sentiment.data",
    "sentiment.failures",
    "sentiment.labels",
    "sentiment.metrics",
    "sentiment.models",
    "sentiment.pictures",
    "sentiment.probing",
    "sentiment.progress",
    "sentiment.ranks",
    "sentiment.recipe",
    "sentiment.report",
    "sentiment.run_record",
    "sentiment.scoring",
    "sentiment.train",
)

PACKAGING: Final = _modules(
    "archive",
    "sentiment.package",
    "sentiment.labels",
    "sentiment.probe",
    # What goes into the archive.
    "sentiment.answering",
    "sentiment.buckets",
    "sentiment.classifier",
    "sentiment.inference",
    "sentiment.negotiation",
    "sentiment.precision",
    "sentiment.protocol",
    "sentiment.toolkit",
)
