"""Images of our own, each built in the stack of its workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import IDependable

from settings.hardware import Architecture
from settings.images import BaseImage
from stacks import bundles
from stacks.deployment_stack import DeploymentStack
from stacks.foundation import Foundation
from torchlift import permissions
from torchlift.content_hash import job_hash
from torchlift.image_job import ImageJob
from torchlift.job_data import JobInput, JobResult
from torchlift.job_services import JobServices
from torchlift.source_bundle import SourceBundle


@dataclass(frozen=True, kw_only=True)
class OwnImage:
    """Where the image will be, the hash it is known by, and the job that puts it there."""

    result: JobResult
    hash: str
    job: ImageJob
    arch: Architecture
    repository: ecr.IRepository

    def grant_pull(self, grantee: iam.IGrantable) -> None:
        """Allow running the image."""
        permissions.pull_image(grantee, repository_arns=[self.repository.repository_arn])


def build_image(
    stack: DeploymentStack,
    *,
    foundation: Foundation,
    services: JobServices,
    job: str,
    repository: str,
    base: BaseImage | OwnImage,
    region: str,
    id: str = "Image",
    modules: Sequence[str] = (),
    inputs: Sequence[JobInput] = (),
    environment: Mapping[str, str] | None = None,
    after: Sequence[IDependable] = (),
    compute_type: str = "BUILD_GENERAL1_MEDIUM",
) -> OwnImage:
    """Declare the job that builds `containers/<repository>` on `base`, which another such job may make.

    :param id: of its construct; a stack with several images has one for each
    :param modules: files of model_code that the image holds
    :param inputs: what the build reads besides, which `environment`, literal, identifies
    :param after: jobs whose results are inputs (their `done`)
    """
    image_dir = f"containers/{repository}"
    source = SourceBundle(stack, f"{id}Source", paths=[bundles.SCRIPTS, image_dir, *modules])
    base_uri = base.result.image_uri if isinstance(base, OwnImage) else base.uri(region)
    # Ours is known by its hash: its address is a token.
    identity = base.hash if isinstance(base, OwnImage) else base_uri
    hash = job_hash(job=job, bundle_hash=source.content_hash, parameters=dict(environment or {}), image=identity)
    result = JobResult.in_ecr(repository=foundation.repositories[repository], tag=hash)
    made = ImageJob(
        stack,
        id,
        services=services,
        job=job,
        hash=hash,
        result=result,
        source=source,
        base_image=base_uri,
        base_repository=base.repository if isinstance(base, OwnImage) else None,
        image_dir=image_dir,
        inputs=inputs,
        environment=environment,
        architecture=base.arch,
        compute_type=compute_type,
        log_group=stack.job_logs(job),
        key=foundation.key,
        after=[*after, *([base.job.done] if isinstance(base, OwnImage) else [])],
    )
    return OwnImage(result=result, hash=hash, job=made, arch=base.arch, repository=foundation.repositories[repository])
