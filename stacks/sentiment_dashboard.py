"""The dashboard of the sentiment workload."""

from __future__ import annotations

from aws_cdk import CfnOutput
from constructs import Construct

from settings import Settings, names
from torchlift.endpoint_dashboard import EndpointDashboard
from torchlift.sagemaker_endpoint import SageMakerEndpoint

WORKLOAD = "sentiment"
JOBS = ("sentiment-train", "sentiment-package", "serving-image", "sentiment-image")


def build_dashboard(scope: Construct, *, settings: Settings, endpoint: SageMakerEndpoint) -> None:
    """Declare the dashboard, and its page as an output."""
    deployment = settings.deployment.name
    parameter = names.parameter_name(deployment, WORKLOAD, "endpoint")
    trains = settings.training is not None and settings.training.mode != "skip"
    groups = [
        names.log_group_of_endpoint(endpoint.literal_name),
        *(names.log_group_of_job(deployment, job) for job in JOBS),
    ]
    made = EndpointDashboard(
        scope,
        "Dashboard",
        name=names.dashboard_name(deployment, WORKLOAD),
        title=f"Torchlift {deployment}: {WORKLOAD}",
        variants=endpoint.watched,
        alarms=endpoint.alarms,
        log_groups=groups,
        training={"Deployment": deployment, "Job": "sentiment-train"} if trains else None,
        links=[
            f"Endpoint `{endpoint.literal_name}`; clients read its name from the SSM parameter `{parameter}`",
            f"What to do: `docs/runbooks.md` · `torchlift status {deployment}` · `aws logs tail --follow {groups[0]}`",
        ],
    )
    CfnOutput(scope, names.OUTPUT_SENTIMENT_DASHBOARD, value=made.url)
