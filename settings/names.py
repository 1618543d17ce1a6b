"""Names that separate parts must agree on: stacks, outputs, parameters, tags, jobs, repositories."""

from __future__ import annotations

STACK_PREFIX = "Torchlift-"

JOBS = ("hub-mirror", "sentiment-image", "sentiment-train", "serving-image", "sentiment-package")
REPOSITORIES = ("sentiment-training", "sentiment-serving")

TAG_DEPLOYMENT = "torchlift:deployment"
TAG_WORKLOAD = "torchlift:workload"
TAG_OWNER = "torchlift:owner"

OUTPUT_BUCKET = "ArtifactBucketName"
OUTPUT_WEIGHTS = "WeightsUri"
OUTPUT_INTERACTIVE_INSTANCE = "InteractiveInstanceId"
OUTPUT_SENTIMENT_ENDPOINT = "SentimentEndpointName"

ENDPOINT_NAME_LENGTH = 63
"""Longest endpoint name that SageMaker takes (API reference, CreateEndpoint)."""


def stack_name(deployment: str, stack: str) -> str:
    """`Torchlift-<deployment>-<stack>`."""
    return f"{STACK_PREFIX}{deployment}-{stack}"


def parameter_name(deployment: str, workload: str, kind: str) -> str:
    """SSM parameter of a workload; `kind` is `endpoint`, `url` or `model`."""
    return f"/torchlift/{deployment}/{workload}/{kind}"


def endpoint_name(deployment: str, workload: str, instance_type: str) -> str:
    """SageMaker endpoint name. It carries the instance type: a type change must make a new endpoint.

    SageMaker refuses to change the type of an autoscaled variant in place, and alarms that roll an update back must
    exist before the endpoint and name it, so the name is fixed at synth.
    """
    kind = instance_type.removeprefix("ml.").replace(".", "-")
    return f"torchlift-{deployment}-{workload}-{kind}"


def log_group_of_job(deployment: str, job: str) -> str:
    """The log group that Foundation declares for a job."""
    return f"/torchlift/{deployment}/jobs/{job}"


def log_group_of_endpoint(endpoint: str) -> str:
    """The log group that SageMaker writes to; its name is SageMaker's, so we declare it under that name."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"
