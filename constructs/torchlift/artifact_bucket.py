"""ArtifactBucket: where jobs publish: inputs, weights, packages, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Acknowledgment, CustomResource, Duration, Stack, Validations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from torchlift import permissions
from torchlift.handler_function import HandlerFunction
from torchlift.job_data import TEMPORARY_PREFIX
from torchlift.removal import removal_policy

CHECKPOINT_PREFIX = "checkpoints/"
CHECKPOINT_DAYS = 30
TEMPORARY_DAYS = 2
OLD_VERSION_DAYS = 30
ABORT_UPLOAD_DAYS = 2


class ArtifactBucket(Construct):
    """A private, versioned bucket, encrypted with our key; when ephemeral it goes with everything in it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: kms.IKey,
        ephemeral: bool,
        log_retention: logs.RetentionDays,
        expire_days: Mapping[str, int],
    ) -> None:
        """Declare the bucket.

        :param ephemeral: empty the bucket and remove it with the stack; otherwise it stays
        :param log_retention: of the function that empties it
        :param expire_days: {prefix: days after which what lies below it is deleted}
        """
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            versioned=True,
            lifecycle_rules=_lifecycle(expire_days),
            removal_policy=removal_policy(ephemeral=ephemeral),
        )
        Validations.of(self.bucket).acknowledge(
            Acknowledgment(
                id="AwsSolutions::AwsSolutions-S1",
                reason="S3 delivers access logs hours late: a bucket for them would fill again after it was emptied "
                "and hold up the removal; who reads what is for the account's CloudTrail data events",
            )
        )
        if ephemeral:
            self._empty_on_delete(key=key, log_retention=log_retention)

    def _empty_on_delete(self, *, key: kms.IKey, log_retention: logs.RetentionDays) -> None:
        function = HandlerFunction(
            self,
            "EmptyBucket",
            handler="empty_bucket",
            description="Empties the artifact bucket when an ephemeral deployment goes",
            log_retention=log_retention,
            key=key,
            timeout=Duration.minutes(14),
        )
        permissions.allow(function.role, actions=["cloudformation:DescribeStacks"], resources=[Stack.of(self).stack_id])
        permissions.allow(
            function.role,
            actions=["s3:ListBucketVersions", "s3:ListBucketMultipartUploads"],
            resources=[self.bucket.bucket_arn],
        )
        permissions.allow(
            function.role,
            actions=["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload"],
            resources=[self.bucket.arn_for_objects("*")],
            why="Emptying a bucket means every object in it",
        )
        empty = CustomResource(
            self,
            "Contents",
            resource_type="Custom::EmptyBucket",
            service_token=function.arn,
            service_timeout=Duration.minutes(15),
            properties={"BucketName": self.bucket.bucket_name},
        )
        # Deleted in reverse: first the contents, with the function and its role still there, then the bucket.
        empty.node.add_dependency(self.bucket, function)


def _lifecycle(expire_days: Mapping[str, int]) -> list[s3.LifecycleRule]:
    return [
        s3.LifecycleRule(
            id="Leftovers",
            abort_incomplete_multipart_upload_after=Duration.days(ABORT_UPLOAD_DAYS),
            noncurrent_version_expiration=Duration.days(OLD_VERSION_DAYS),
        ),
        # A job that died while publishing leaves its half under this prefix.
        s3.LifecycleRule(id="Temporary", prefix=TEMPORARY_PREFIX, expiration=Duration.days(TEMPORARY_DAYS)),
        s3.LifecycleRule(id="Checkpoints", prefix=CHECKPOINT_PREFIX, expiration=Duration.days(CHECKPOINT_DAYS)),
        *(
            s3.LifecycleRule(
                id=f"Expire-{prefix.strip('/').replace('/', '-')}", prefix=prefix, expiration=Duration.days(days)
            )
            for prefix, days in sorted(expire_days.items())
        ),
    ]
