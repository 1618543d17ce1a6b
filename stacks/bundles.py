"""Which files each job runs. A job's hash covers exactly these, so a file too many costs a training run some day.

A test compares the lists of modules with what the entry points import.
"""

from __future__ import annotations

from typing import Final

SCRIPTS: Final = "scripts"
HOST: Final = "hosts/instance_job"
BOX: Final = "hosts/interactive"
FLEET_HOST: Final = "hosts/inferentia"
ONLY_FOR_IMAGES: Final = ("build_image.sh",)
"""Left out of the bundles of jobs that build no image."""


def _modules(*names: str) -> tuple[str, ...]:
    """Files of model_code by module name, with the packages they lie in."""
    inner = dict.fromkeys(name.partition(".")[0] for name in names if "." in name)
    packages = ["model_code/__init__.py", *(f"model_code/{name}/__init__.py" for name in inner)]
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

ENCODING: Final = _modules(
    "archive",
    "text_encoding.build",
    "text_encoding.build_engine",
    "text_encoding.client",
    # Travels in the archives of the local run.
    "text_encoding.cpu_model",
    "text_encoding.differences",
    "text_encoding.engine",
    "text_encoding.export_onnx",
    "text_encoding.model_config",
    "text_encoding.parity",
    "text_encoding.probe",
    "text_encoding.repository",
    "text_encoding.sweep",
    "text_encoding.sweep_report",
    "text_encoding.trtexec",
)
TRACING: Final = _modules(
    "argument_types",
    "pretrained",
    "question_answering.answers",
    "question_answering.arguments",
    "question_answering.backends",
    "question_answering.compiled",
    "question_answering.eager",
    "question_answering.manifest",
    "question_answering.trace",
    "question_answering.windows",
    "shapes",
    "sources",
)

SERVING: Final = _modules(
    "archive",
    "question_answering.answers",
    "question_answering.backends",
    "question_answering.compiled",
    "question_answering.manifest",
    "question_answering.schemas",
    "question_answering.windows",
    "question_answering.workload",
    "serving.__main__",
    "serving.app",
    "serving.batching",
    "serving.core",
    "serving.errors",
    "serving.log",
    "serving.metrics",
    "serving.middleware",
    "serving.model_list",
    "serving.neuron_cores",
    "serving.program",
    "serving.registry",
    "serving.route",
    "serving.service",
    "serving.settings",
    "serving.sources",
    "serving.workload",
    "shapes",
)

NEURON_MONITOR: Final = _modules("neuron_monitor.__main__", "neuron_monitor.documents", "neuron_monitor.servers")
