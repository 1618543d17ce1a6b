"""Rules over text encoding: the engine, the container that serves it, and its endpoint."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from settings import hardware, names, shared_rules
from settings.errors import Problem
from settings.rule import Values, nearest, rule
from settings.text_encoding_models import ENGINE_DISK_GIB, MOST_MODELS
from settings.triton import AMI_DRIVERS, HOSTED, RELEASES

_SECTION = "text_encoding"
_ENDPOINT = f"{_SECTION}.endpoint"
MOST_CHARACTERS = 4000
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
"""As `model_code.text_encoding.repository` takes them (a test compares)."""


@rule(f"{_SECTION}.triton_release")
def _release(values: Values, _: Path) -> Iterator[Problem]:
    given = values[f"{_SECTION}.triton_release"]
    known = RELEASES.get(given)
    if known is not None and known.ami_version is not None:
        return
    if known is not None:
        reason = (
            f"Its CUDA {known.cuda} needs NVIDIA driver branch {known.minimum_driver}; the newest on SageMaker's "
            f"hosting instances is {max(AMI_DRIVERS.values())}."
        )
    else:
        reason = "It is not in the catalogue of Triton containers on SageMaker (settings/triton.py)."
    yield Problem(key=f"{_SECTION}.triton_release", given=given, reason=reason, right="one of " + ", ".join(HOSTED))


@rule(f"{_ENDPOINT}.instance_type")
def _endpoint_type(values: Values, _: Path) -> Iterator[Problem]:
    given = values[f"{_ENDPOINT}.instance_type"]
    if given in hardware.HOSTING_GPU_TYPES:
        return
    if given in hardware.ML_TYPES:
        reason = "TensorRT needs an NVIDIA GPU, and this type has none."
    elif f"ml.{given}" in hardware.ML_TYPES:
        reason = "SageMaker's names begin with ml."
    else:
        reason = "It is not in the catalogue of hosting types with GPUs (settings/hardware.py)."
    close = nearest(
        given if given.startswith("ml.") else f"ml.{given}", hardware.HOSTING_GPU_TYPES, hardware.HOSTING_GPU_TYPES[0]
    )
    yield Problem(key=f"{_ENDPOINT}.instance_type", given=given, reason=reason, right=close)


@rule(f"{_SECTION}.build_instance_type", f"{_ENDPOINT}.instance_type")
def _build_type(values: Values, _: Path) -> Iterator[Problem]:
    given, endpoint = values[f"{_SECTION}.build_instance_type"], values[f"{_ENDPOINT}.instance_type"]
    if endpoint not in hardware.HOSTING_GPU_TYPES:
        return
    gpu = hardware.ml_instance(endpoint).gpu_name
    machine = hardware.EC2_TYPES.get(given)
    if machine is not None and machine.gpu_name == gpu:
        return
    if machine is None:
        reason = "It is not in the catalogue of EC2 types (settings/hardware.py)."
    else:
        reason = (
            f"It has {machine.gpu_name or 'no GPU'}, {endpoint} has {gpu}: a TensorRT engine runs only on the GPU that "
            "it was built on."
        )
    fit = [name for name, item in hardware.EC2_TYPES.items() if item.gpu_name == gpu]
    yield Problem(key=f"{_SECTION}.build_instance_type", given=given, reason=reason, right="one of " + ", ".join(fit))


@rule(f"{_SECTION}.models", f"{_SECTION}.mode")
def _models(values: Values, _: Path) -> Iterator[Problem]:
    key = f"{_SECTION}.models"
    given: int | tuple[str, ...] = values[key]
    count = given if isinstance(given, int) else len(given)
    if not 1 <= count <= MOST_MODELS:
        yield Problem(
            key=key, given=given, reason=f"That is {count} models.", right=f"1 to {MOST_MODELS}, or a list of names"
        )
        return
    if not isinstance(given, int):
        wrong = [name for name in given if not MODEL_NAME.fullmatch(name)]
        twice = [name for name, times in Counter(given).items() if times > 1]
        if wrong or twice:
            reason = f"{wrong[0]!r} is no model's name." if wrong else f"{twice[0]!r} stands twice."
            right = "letters, digits, '-' and '_', at most 63, each name once"
            yield Problem(key=key, given=list(given), reason=reason, right=right)
            return
        if sum(len(name) + 1 for name in given) > MOST_CHARACTERS:
            reason = f"Together they are longer than {MOST_CHARACTERS} characters, too long for the job's boot script."
            yield Problem(key=key, given=f"{count} names", reason=reason, right="shorter names, or fewer")
            return
    if values[f"{_SECTION}.mode"] == "single-model" and count > 1:
        yield Problem(
            key=key,
            given=given if isinstance(given, int) else list(given),
            reason='With mode = "single-model" the endpoint serves one.',
            right='1, or mode = "multi-model"',
        )


@rule(f"{_SECTION}.opt_batch", f"{_SECTION}.max_batch")
def _batches(values: Values, _: Path) -> Iterator[Problem]:
    best, most = values[f"{_SECTION}.opt_batch"], values[f"{_SECTION}.max_batch"]
    if best > most:
        yield Problem(
            key=f"{_SECTION}.opt_batch",
            given=best,
            reason=f"max_batch is {most}.",
            right=f"1 to {most}, or a larger max_batch",
        )


@rule(f"{_SECTION}.min_length", f"{_SECTION}.opt_length", f"{_SECTION}.max_length")
def _lengths(values: Values, _: Path) -> Iterator[Problem]:
    low, best, high = (values[f"{_SECTION}.{name}_length"] for name in ("min", "opt", "max"))
    if low > high:
        yield Problem(key=f"{_SECTION}.max_length", given=high, reason=f"min_length is {low}.", right=f"{low} or more")
    elif not low <= best <= high:
        yield Problem(
            key=f"{_SECTION}.opt_length",
            given=best,
            reason="The engine is tuned for a length that it takes.",
            right=f"{low} to {high}",
        )


@rule(f"{_SECTION}.preferred_batch_sizes", f"{_SECTION}.max_batch")
def _preferred(values: Values, _: Path) -> Iterator[Problem]:
    given, most = values[f"{_SECTION}.preferred_batch_sizes"], values[f"{_SECTION}.max_batch"]
    outside = [size for size in given if not 1 <= size <= most]
    if outside:
        yield Problem(
            key=f"{_SECTION}.preferred_batch_sizes",
            given=list(given),
            reason=f"Triton makes batches of max_batch = {most} at most, and {outside[0]} is none of them.",
            right=f"sizes from 1 to {most}",
        )


@rule(f"{_SECTION}.precision", f"{_SECTION}.sweep", f"{_SECTION}.calibration_texts")
def _calibration(values: Values, _: Path) -> Iterator[Problem]:
    key, given = f"{_SECTION}.calibration_texts", values[f"{_SECTION}.calibration_texts"]
    precision, sweep = values[f"{_SECTION}.precision"], values[f"{_SECTION}.sweep"]
    if given is None and (sweep or precision == "int8"):
        why = "A sweep compares the precisions on" if sweep else 'precision = "int8" is calibrated with'
        right = "s3://bucket/prefix/ or a local folder with texts.txt, a text a line"
        yield Problem(key=key, given=None, reason=f"{why} texts like those to come.", right=right)
    if given is not None and not sweep and precision != "int8":
        yield Problem(
            key=key,
            given=given,
            reason=f'precision = "{precision}" is not calibrated.',
            right='none, or precision = "int8", or sweep = true',
        )


@rule(f"{_SECTION}.mode", f"{_ENDPOINT}.high_resolution_concurrency")
def _concurrency(values: Values, _: Path) -> Iterator[Problem]:
    given = values[f"{_ENDPOINT}.high_resolution_concurrency"]
    if given is not None and values[f"{_SECTION}.mode"] == "multi-model":
        yield Problem(
            key=f"{_ENDPOINT}.high_resolution_concurrency",
            given=given,
            reason="Metrics of multi-model endpoints come once a minute (SageMaker guide, auto scaling of multi-model "
            "endpoints): there is no high-resolution metric to follow.",
            right='none, or mode = "single-model"',
        )


@rule(f"{_SECTION}.mode", f"{_ENDPOINT}.model_caching")
def _caching(values: Values, _: Path) -> Iterator[Problem]:
    if not values[f"{_ENDPOINT}.model_caching"] and values[f"{_SECTION}.mode"] == "single-model":
        yield Problem(
            key=f"{_ENDPOINT}.model_caching",
            given=False,
            reason='With mode = "single-model" the model is always loaded.',
            right='true, or mode = "multi-model"',
        )


@rule(f"{_SECTION}.max_queue_delay_ms", f"{_ENDPOINT}.latency_p99_ms_alarm")
def _queue_delay(values: Values, _: Path) -> Iterator[Problem]:
    delay, alarm = values[f"{_SECTION}.max_queue_delay_ms"], values[f"{_ENDPOINT}.latency_p99_ms_alarm"]
    if delay >= alarm:
        yield Problem(
            key=f"{_SECTION}.max_queue_delay_ms",
            given=delay,
            reason=f"A request that comes alone waits that long, and the alarm rings at {alarm} ms.",
            right=f"below {alarm}",
        )


@rule(f"{_ENDPOINT}.min_instances", f"{_ENDPOINT}.initial_instances", f"{_ENDPOINT}.max_instances")
def _counts(values: Values, _: Path) -> Iterator[Problem]:
    yield from shared_rules.counts(
        _ENDPOINT, *(values[f"{_ENDPOINT}.{name}_instances"] for name in ("min", "initial", "max"))
    )


@rule("deployment.name", f"{_ENDPOINT}.instance_type", f"{_SECTION}.mode")
def _endpoint_name(values: Values, _: Path) -> Iterator[Problem]:
    name = names.endpoint_name(values["deployment.name"], "text-encoding", values[f"{_ENDPOINT}.instance_type"])
    over = len(name) - names.ENDPOINT_NAME_LENGTH
    if over > 0:
        yield Problem(
            key="deployment.name",
            given=values["deployment.name"],
            reason=f"The endpoint's name {name} would have more than {names.ENDPOINT_NAME_LENGTH} characters.",
            right=f"a name shorter by {over}",
        )


shared_rules.machine_rules(_SECTION)
shared_rules.root_volume_rule(
    _SECTION,
    least_gib=ENGINE_DISK_GIB,
    reason="The GPU Deep Learning AMI, the builder image and the engines do not fit.",
)
shared_rules.source_rule(f"{_SECTION}.base_model")
shared_rules.source_rule(f"{_SECTION}.calibration_texts", hub=False)
