"""ImageJob: a container image, built by CodeBuild once per content hash and pushed to ECR under that hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from torchlift import permissions
from torchlift.build_job import BuildJob
from torchlift.job_data import JobInput, JobResult
from torchlift.job_services import JobServices
from torchlift.source_bundle import SourceBundle

PLATFORMS = {"arm64": "linux/arm64", "x86_64": "linux/amd64"}


class ImageJob(BuildJob):
    """Runs ``containers/<image>/build.sh`` on a builder of the image's own architecture."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        services: JobServices,
        job: str,
        hash: str,
        result: JobResult,
        source: SourceBundle,
        base_image: str,
        base_repository: ecr.IRepository | None = None,
        image_dir: str,
        architecture: str,
        log_group: logs.ILogGroup,
        inputs: Sequence[JobInput] = (),
        environment: Mapping[str, str] | None = None,
        compute_type: str = "BUILD_GENERAL1_MEDIUM",
        key: kms.IKey | None = None,
        timeout: Duration | None = None,
        after: Sequence[IDependable] = (),
    ) -> None:
        """Declare the job.

        :param result: :meth:`JobResult.in_ecr` with the hash as tag
        :param source: must hold ``scripts/`` and ``image_dir``
        :param base_image: URI of the image in the Dockerfile's FROM
        :param base_repository: its repository, when the URI is not literal
        :param image_dir: ``containers/<image>``, with ``Dockerfile`` and ``build.sh``
        :param architecture: ``arm64`` or ``x86_64``
        """
        super().__init__(
            scope,
            id,
            services=services,
            job=job,
            hash=hash,
            result=result,
            source=source,
            command=f'bash "$TORCHLIFT_HOME/{image_dir}/build.sh"',
            inputs=inputs,
            environment={
                **(environment or {}),
                "BASE_IMAGE": base_image,
                "TORCHLIFT_IMAGE_DIR": image_dir,
                "TORCHLIFT_PLATFORM": PLATFORMS[architecture],
            },
            architecture=architecture,
            compute_type=compute_type,
            privileged=True,
            log_group=log_group,
            key=key,
            timeout=timeout or Duration.hours(2),
            after=after,
        )
        base = base_repository.repository_arn if base_repository else permissions.registry_repository_arn(base_image)
        if base is not None:
            permissions.pull_image(self.role, repository_arns=[base])
