"""The dashboard of a workload with an endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnOutput
from constructs import Construct

from settings import Settings, names
from torchlift.endpoint_dashboard import EndpointDashboard
from torchlift.sagemaker_endpoint import SageMakerEndpoint


def build_dashboard(
    scope: Construct,
    *,
    settings: Settings,
    workload: str,
    endpoint: SageMakerEndpoint,
    jobs: Sequence[str],
    output: str,
    training_job: str | None = None,
) -> None:
    """Declare the dashboard, and its page as an output.

    :param jobs: whose last errors are shown beside the endpoint's
    :param output: the stack output's name
    :param training_job: the job whose training is shown, when it sends metrics
    """
    deployment = settings.deployment.name
    parameter = names.parameter_name(deployment, workload, "endpoint")
    groups = [
        names.log_group_of_endpoint(endpoint.literal_name),
        *(names.log_group_of_job(deployment, job) for job in jobs),
    ]
    made = EndpointDashboard(
        scope,
        "Dashboard",
        name=names.dashboard_name(deployment, workload),
        title=f"Torchlift {deployment}: {workload}",
        variants=endpoint.watched,
        alarms=endpoint.alarms,
        log_groups=groups,
        training={"Deployment": deployment, "Job": training_job} if training_job else None,
        links=[
            f"Endpoint `{endpoint.literal_name}`; clients read its name from the SSM parameter `{parameter}`",
            f"What to do: `docs/runbooks.md` · `torchlift status {deployment}` · `aws logs tail --follow {groups[0]}`",
        ],
    )
    CfnOutput(scope, output, value=made.url)
