"""ImageRepository: an ECR repository whose tags are content hashes."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct

from torchlift.removal import removal_policy

UNTAGGED_DAYS = 7


class ImageRepository(Construct):
    """Immutable tags, scanned on push, encrypted with our key; tagged images never expire.

    A tag may be what an endpoint runs, or what a rollback goes back to, so only untagged images are removed.
    """

    def __init__(self, scope: Construct, id: str, *, key: kms.IKey, ephemeral: bool) -> None:
        """Declare the repository.

        :param ephemeral: the repository goes with the stack, with all images in it
        """
        super().__init__(scope, id)
        self.repository = ecr.Repository(
            self,
            "Repository",
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            image_scan_on_push=True,
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=key,
            empty_on_delete=ephemeral,
            removal_policy=removal_policy(ephemeral=ephemeral),
            lifecycle_rules=[
                ecr.LifecycleRule(
                    description="Images that lost their tag",
                    tag_status=ecr.TagStatus.UNTAGGED,
                    max_image_age=Duration.days(UNTAGGED_DAYS),
                )
            ],
        )
