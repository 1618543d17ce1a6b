"""Images of our own, each built in the stack of its workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from settings.images import BaseImage
from stacks import bundles
from stacks.deployment_stack import DeploymentStack
from stacks.foundation import Foundation
from torchlift.content_hash import job_hash
from torchlift.image_job import ImageJob
from torchlift.job_data import JobResult
from torchlift.job_services import JobServices
from torchlift.source_bundle import SourceBundle


@dataclass(frozen=True, kw_only=True)
class OwnImage:
    """Where the image will be, the hash it is known by, and the job that puts it there."""

    result: JobResult
    hash: str
    job: ImageJob


def build_image(
    stack: DeploymentStack,
    *,
    foundation: Foundation,
    services: JobServices,
    job: str,
    repository: str,
    base: BaseImage,
    region: str,
    modules: Sequence[str] = (),
    compute_type: str = "BUILD_GENERAL1_MEDIUM",
) -> OwnImage:
    """Declare the job that builds `containers/<repository>` on `base`.

    :param modules: files of model_code that the image holds
    """
    image_dir = f"containers/{repository}"
    source = SourceBundle(stack, "ImageSource", paths=[bundles.SCRIPTS, image_dir, *modules])
    base_uri = base.uri(region)
    hash = job_hash(job=job, bundle_hash=source.content_hash, parameters={}, image=base_uri)
    result = JobResult.in_ecr(repository=foundation.repositories[repository], tag=hash)
    made = ImageJob(
        stack,
        "Image",
        services=services,
        job=job,
        hash=hash,
        result=result,
        source=source,
        base_image=base_uri,
        image_dir=image_dir,
        architecture=base.arch,
        compute_type=compute_type,
        log_group=stack.job_logs(job),
        key=foundation.key,
    )
    return OwnImage(result=result, hash=hash, job=made)
