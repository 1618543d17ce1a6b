"""The account and region that a deployment lives in, and what its stacks put out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ProfileNotFound

from operations.failure import CommandFailed, error_code
from settings import Settings, names

CONFIGS = {"sagemaker-runtime": Config(read_timeout=75)}
"""{service: what differs from boto3's defaults}. SageMaker answers within 60 s, if only that a model still loads;
boto3 would give up at 60 s, and ask again."""


@dataclass(frozen=True)
class Account:
    """One deployment's account, seen with the credentials of a profile, or with those of the environment.

    :param profile: a named profile of the AWS configuration
    """

    settings: Settings
    profile: str | None = None
    _clients: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.settings.deployment.name

    @property
    def region(self) -> str:
        """The deployment's region."""
        return self.settings.deployment.region

    def client(self, service: str) -> Any:
        """A boto3 client for `service` in the deployment's region; one a service.

        :raises CommandFailed: there is no such profile
        """
        if service not in self._clients:
            try:
                # The default session keeps the service descriptions that it has read: half a second each.
                session: Any = boto3.Session(profile_name=self.profile) if self.profile else boto3
                self._clients[service] = session.client(service, region_name=self.region, config=CONFIGS.get(service))
            except ProfileNotFound as error:
                raise CommandFailed(f"{error}. `aws configure list-profiles` lists those there are.") from None
        return self._clients[service]

    def stacks(self) -> list[dict[str, Any]]:
        """The deployment's stacks as DescribeStacks shows them, by name. `dev` has none of those of `dev-2`."""
        pages = self.client("cloudformation").get_paginator("describe_stacks").paginate()
        family = names.stack_name(self.deployment, "").removesuffix("-")
        found = [stack for page in pages for stack in page["Stacks"]]
        return sorted(
            (stack for stack in found if stack["StackName"].rpartition("-")[0] == family),
            key=lambda stack: str(stack["StackName"]),
        )

    def resources(self, stack: str) -> list[dict[str, Any]]:
        """The resources of a stack as ListStackResources shows them."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
        return [resource for page in pages for resource in page["StackResourceSummaries"]]

    def parameter(self, workload: str, kind: str) -> str | None:
        """The value of a workload's SSM parameter; None when there is no such parameter."""
        ssm = self.client("ssm")
        try:
            name = names.parameter_name(self.deployment, workload, kind)
            return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            return None

    def bucket(self) -> str:
        """The name of the artifact bucket.

        :raises CommandFailed: the Foundation stack does not exist, or is not complete
        """
        stack = names.stack_name(self.deployment, "Foundation")
        try:
            found = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        except ClientError as error:
            if error_code(error) != "ValidationError":
                raise
            found = []
        outputs = {output["OutputKey"]: output["OutputValue"] for item in found for output in item.get("Outputs", [])}
        if names.OUTPUT_BUCKET not in outputs:
            raise CommandFailed(
                f"Deployment '{self.deployment}' has no artifact bucket in {self.region}: the stack {stack} is not "
                f"there or not complete. Deploy it first: cdk deploy -c deployment={self.deployment} {stack}"
            )
        return str(outputs[names.OUTPUT_BUCKET])
