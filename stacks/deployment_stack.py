"""What all stacks of a deployment have in common."""

from __future__ import annotations

from aws_cdk import Environment, Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from settings import Settings, names
from torchlift.log_retention import retention
from torchlift.removal import removal_policy


class DeploymentStack(Stack):
    """Named, described, tagged, and protected from removal unless it is ephemeral.

    Tags are the stack's own, which CloudFormation passes on to every resource: in the template they would make a
    change of owner look like a change of a job.
    """

    def __init__(
        self, scope: Construct, kind: str, *, settings: Settings, description: str, workload: str | None = None
    ) -> None:
        """Declare the stack `Torchlift-<deployment>-<kind>`, in the settings' region and, when given, account."""
        deployment = settings.deployment
        tags = {names.TAG_DEPLOYMENT: deployment.name, names.TAG_OWNER: deployment.owner}
        if workload is not None:
            tags[names.TAG_WORKLOAD] = workload
        super().__init__(
            scope,
            names.stack_name(deployment.name, kind),
            env=Environment(region=deployment.region, account=deployment.account),
            description=f"Torchlift {deployment.name}: {description}",
            termination_protection=not deployment.ephemeral,
            tags=tags,
        )
        self.log_retention = retention(settings.logs.retention_days)
        self._deployment = deployment.name
        self._job_logs: dict[str, logs.ILogGroup] = {}
        self.removal_policy = removal_policy(ephemeral=deployment.ephemeral)

    def job_logs(self, job: str) -> logs.ILogGroup:
        """The group of a job, which Foundation declares, by its name: an export would tie the stacks together."""
        if job not in self._job_logs:
            name = names.log_group_of_job(self._deployment, job)
            self._job_logs[job] = logs.LogGroup.from_log_group_name(self, f"{pascal(job)}Logs", name)
        return self._job_logs[job]


def pascal(name: str) -> str:
    """`hub-mirror` or `base_model` as a construct's id: `HubMirror`, `BaseModel`."""
    return "".join(part.capitalize() for part in name.replace("_", "-").split("-"))
