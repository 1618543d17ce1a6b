"""Names that separate parts must agree on: stacks, outputs, parameters, tags, jobs, repositories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

STACK_PREFIX = "Torchlift-"

QUESTION_ANSWERING_FLEET = "question-answering-fleet"
JOBS = (
    "hub-mirror",
    "sentiment-image",
    "sentiment-train",
    "serving-image",
    "sentiment-package",
    "question-answering-trace-image",
    "question-answering-trace",
    "question-answering-models",
    "question-answering-image",
    "nginx-image",
    "neuron-monitor-image",
    QUESTION_ANSWERING_FLEET,
    "triton-image",
    "text-encoding-image",
    "text-encoding-engine",
)
INSTANCE_JOBS = ("sentiment-train", "text-encoding-engine", QUESTION_ANSWERING_FLEET)
"""Those that run on instances, which tell of a failure by a line in the job's log; the others are builds."""
REPOSITORIES = (
    "sentiment-training",
    "sentiment-serving",
    "question-answering-trace",
    "question-answering-serving",
    "nginx",
    "neuron-monitor",
    "triton",
    "tensorrt-builder",
)

TAG_DEPLOYMENT = "torchlift:deployment"
TAG_WORKLOAD = "torchlift:workload"
TAG_OWNER = "torchlift:owner"

OUTPUT_BUCKET = "ArtifactBucketName"
OUTPUT_WEIGHTS = "WeightsUri"
OUTPUT_INTERACTIVE_INSTANCE = "InteractiveInstanceId"
OUTPUT_SENTIMENT_ENDPOINT = "SentimentEndpointName"
OUTPUT_SENTIMENT_DASHBOARD = "SentimentDashboardUrl"
OUTPUT_QUESTION_ANSWERING_URL = "QuestionAnsweringUrl"
OUTPUT_QUESTION_ANSWERING_DASHBOARD = "QuestionAnsweringDashboardUrl"
OUTPUT_TEXT_ENCODING_ENDPOINT = "TextEncodingEndpointName"
OUTPUT_TEXT_ENCODING_DASHBOARD = "TextEncodingDashboardUrl"

MAIN_VARIANT = "AllTraffic"
"""The variant that every endpoint has: an update with guardrails must find the old one under its name."""
METRIC_LINE = '{"_aws"'
"""How a log line in CloudWatch's Embedded Metric Format begins: for CloudWatch, not for people."""

ENDPOINT_NAME_LENGTH = 63
"""Longest endpoint name that SageMaker takes (API reference, CreateEndpoint)."""


def stack_name(deployment: str, stack: str) -> str:
    """`Torchlift-<deployment>-<stack>`."""
    return f"{STACK_PREFIX}{deployment}-{stack}"


def parameter_name(deployment: str, workload: str, kind: str) -> str:
    """SSM parameter of a workload; `kind` is `endpoint`, `url`, `model`, `models` or `box`."""
    return f"/torchlift/{deployment}/{workload}/{kind}"


def endpoint_name(
    deployment: str, workload: str, instance_type: str, *, challengers: Mapping[str, str] | None = None
) -> str:
    """SageMaker endpoint name. It carries the variants and their types: a change of either must make a new endpoint.

    SageMaker refuses to change the type of an autoscaled variant in place, to remove one, and to rename variants in a
    guarded update; and alarms that roll an update back must exist before the endpoint and name it, so the name is
    fixed at synth.

    :param instance_type: the main variant's
    :param challengers: {variant: instance type} of the others; their names and types go in as a short hash
    """
    kind = instance_type.removeprefix("ml.").replace(".", "-")
    name = endpoint_prefix(deployment, workload) + kind
    if not challengers:
        return name
    return f"{name}-{hashlib.sha256(json.dumps(sorted(challengers.items())).encode()).hexdigest()[:8]}"


def endpoint_prefix(deployment: str, workload: str) -> str:
    """What the names of all endpoints of a workload begin with."""
    return f"torchlift-{deployment}-{workload}-"


def dashboard_name(deployment: str, workload: str) -> str:
    """The CloudWatch dashboard of a workload; fixed, because people look for it."""
    return f"torchlift-{deployment}-{workload}"


def fleet_models_key(workload: str, build: str) -> str:
    """Key in the artifact bucket of the list of models that a fleet's servers follow.

    :param build: hash of the job that made it
    """
    return f"fleet/{workload}/{build}/models.json"


def captured_prefix(workload: str) -> str:
    """Below it the artifact bucket holds what an endpoint was asked and answered."""
    return f"captured/{workload}/"


def log_group_of_job(deployment: str, job: str) -> str:
    """The log group that Foundation declares for a job."""
    return f"/torchlift/{deployment}/jobs/{job}"


def log_group_of_endpoint(endpoint: str) -> str:
    """The log group that SageMaker writes to; its name is SageMaker's, so we declare it under that name."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"
