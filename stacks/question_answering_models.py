"""From a model to what the fleet serves: mirrored, compiled for NeuronCores, and listed."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

from aws_cdk import Duration
from constructs import IDependable

from settings import names
from settings.images import BaseImage
from settings.question_answering_models import QuestionAnswering
from stacks import bundles
from stacks.deployment_stack import DeploymentStack
from stacks.foundation import Foundation
from stacks.images import OwnImage
from stacks.job_inputs import MODEL, job_inputs
from torchlift.build_job import BuildJob
from torchlift.content_hash import job_hash
from torchlift.job_data import JobInput, JobResult
from torchlift.job_services import JobServices
from torchlift.source_bundle import SourceBundle

WORKLOAD = "question-answering"
TRACE_JOB, MODELS_JOB = "question-answering-trace", "question-answering-models"
TRACED_PREFIX = "neuron/question-answering/"
BAKED = "/opt/torchlift/models/"
"""Where the serving image has its traced model (containers/question-answering-serving)."""
RUN_IN_IMAGE = "containers/question-answering-trace/run.sh"


@dataclass(frozen=True, kw_only=True)
class Made:
    """A job's result, the hash it is known by, and what to wait for."""

    result: JobResult
    hash: str
    done: IDependable


def trace_model(
    stack: DeploymentStack,
    *,
    settings: QuestionAnswering,
    foundation: Foundation,
    services: JobServices,
    image: OwnImage,
    base: BaseImage,
) -> Made:
    """Declare the compilation of the model, in the trace image.

    Where there is no Docker, TORCHLIFT_LAUNCHER is set and empty, and TORCHLIFT_MORE_OPTIONS asks for another backend.

    :param base: the image's own base, which names the Neuron SDK
    """
    inputs = job_inputs(
        stack,
        sources={MODEL: settings.model_source},
        services=services,
        bucket=foundation.bucket,
        key=foundation.key,
        log_group=stack.job_logs("hub-mirror"),
        section="question_answering",
    )
    source = SourceBundle(stack, "TraceSource", paths=[bundles.SCRIPTS, RUN_IN_IMAGE], exclude=bundles.ONLY_FOR_IMAGES)
    options = _options(settings, model=inputs.folders[MODEL], origin=inputs.origins[MODEL], base=base)
    # The program makes the folder itself, as a whole or not at all.
    command = (
        f'rmdir output && ${{TORCHLIFT_LAUNCHER-bash "$TORCHLIFT_HOME/{RUN_IN_IMAGE}"}} '
        f"python3 -m model_code.question_answering.trace {options} $TORCHLIFT_MORE_OPTIONS"
    )
    hash = job_hash(
        job=TRACE_JOB,
        bundle_hash=source.content_hash,
        parameters={"command": command, "inputs": inputs.identity},
        image=image.hash,
    )
    result = JobResult.in_s3(bucket=foundation.bucket, prefix=f"{TRACED_PREFIX}{hash}/", key=foundation.key)
    job = BuildJob(
        stack,
        "Compile",
        services=services,
        job=TRACE_JOB,
        hash=hash,
        result=result,
        source=source,
        command=command,
        environment={"TORCHLIFT_IMAGE": image.result.image_uri},
        inputs=inputs.inputs,
        architecture=image.arch,
        # neuronx-cc wants memory: 16 GB, and processors for its passes.
        compute_type="BUILD_GENERAL1_LARGE",
        privileged=True,
        timeout=Duration.minutes(settings.deadline_minutes),
        log_group=stack.job_logs(TRACE_JOB),
        key=foundation.key,
        after=[*inputs.after, image.job.done],
    )
    image.grant_pull(job.role)
    return Made(result=result, hash=hash, done=job.done)


def list_models(
    stack: DeploymentStack,
    *,
    settings: QuestionAnswering,
    foundation: Foundation,
    services: JobServices,
    traced: Made,
) -> Made:
    """Declare the first list of models: the traced one, as often as the settings say, from the serving image.

    Operators change the list afterwards. It is made once for each traced model and number of models, so no deploy
    puts it back.
    """
    source = SourceBundle(stack, "ModelsSource", paths=[bundles.SCRIPTS], exclude=bundles.ONLY_FOR_IMAGES)
    models = [
        {"name": f"model_{number}", "source": f"{BAKED}{traced.hash}", "weight": 1}
        for number in range(settings.num_models_per_server)
    ]
    text = json.dumps({"schema": 1, "models": models})
    command = f"printf '%s\\n' {shlex.quote(text)} >output/models.json"
    hash = job_hash(job=MODELS_JOB, bundle_hash=source.content_hash, parameters={"command": command})
    prefix = names.fleet_models_key(WORKLOAD, hash).rpartition("/")[0] + "/"
    result = JobResult.in_s3(bucket=foundation.bucket, prefix=prefix, key=foundation.key)
    job = BuildJob(
        stack,
        "Models",
        services=services,
        job=MODELS_JOB,
        hash=hash,
        result=result,
        source=source,
        command=command,
        log_group=stack.job_logs(MODELS_JOB),
        key=foundation.key,
    )
    return Made(result=result, hash=hash, done=job.done)


def as_input(traced: Made) -> JobInput:
    """The traced model as the serving image's build reads it."""
    return JobInput.from_result(name="model", result=traced.result)


def _options(settings: QuestionAnswering, *, model: str, origin: str, base: BaseImage) -> str:
    sdk = re.search(r"sdk([0-9.]+)", base.tag)
    assert sdk is not None, base.tag
    threshold = settings.null_threshold
    values = {
        "model": model,
        "output": "output",
        "source": origin,
        "target": "inf2",
        "batch-sizes": ",".join(map(str, settings.batch_sizes)),
        "lengths": ",".join(map(str, settings.lengths)),
        "dtype": settings.dtype,
        "compiler-args": settings.compiler_args,
        "neuron-sdk": sdk[1],
        "stride": str(settings.stride),
        "max-answer-tokens": str(settings.max_answer_tokens),
        "null-threshold": threshold if threshold == "none" else f"{threshold:g}",
    }
    # With an equals sign: a value may begin with a dash.
    return " ".join(f"--{name}={shlex.quote(value)}" for name, value in values.items())
