"""What a job reads and what it leaves behind, with the permissions that each needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from torchlift import permissions

# Uploads go here first: one lifecycle rule on this prefix cleans up after jobs that died while publishing.
TEMPORARY_PREFIX = "tmp/"


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """Where a job's result lies: a prefix in S3 (complete when ``manifest.json`` is there) or a tag in ECR.

    Make one with :meth:`in_s3` or :meth:`in_ecr`.
    """

    uri: str
    bucket: s3.IBucket | None = None
    prefix: str = ""
    key: kms.IKey | None = None
    repository: ecr.IRepository | None = None
    copies: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def in_s3(
        *, bucket: s3.IBucket, prefix: str, key: kms.IKey | None = None, copies: Mapping[str, str] | None = None
    ) -> JobResult:
        """Return a result under ``prefix``, which ends in ``<hash>/``; ``key`` encrypts the bucket.

        :param copies: {folder of the result: prefix in the bucket that gets its files too, before the manifest}, for
            what is read where other files lie or may come; both end in a slash

        :raises ValueError: the prefix does not end in a slash or starts with one
        """
        for one in (prefix, *(copies or {}), *(copies or {}).values()):
            if not one.endswith("/") or one.startswith("/"):
                raise ValueError(f"'{one}': a result prefix ends in a slash and does not start with one")
        uri = f"s3://{bucket.bucket_name}/{prefix}"
        return JobResult(uri=uri, bucket=bucket, prefix=prefix, key=key, copies=dict(copies or {}))

    @staticmethod
    def in_ecr(*, repository: ecr.IRepository, tag: str) -> JobResult:
        """Return an image tag (the content hash) in a repository with immutable tags."""
        return JobResult(uri=f"ecr://{repository.repository_uri}:{tag}", repository=repository)

    @property
    def image_uri(self) -> str:
        """The image that an ECR result names, as Docker and SageMaker write it."""
        if self.repository is None:
            raise ValueError(f"{self.uri} is not an image")
        return self.uri.removeprefix("ecr://")

    @property
    def variables(self) -> dict[str, str]:
        """What tells the job's scripts where to publish."""
        if not self.copies:
            return {"TORCHLIFT_RESULT": self.uri}
        assert self.bucket is not None
        copies = [f"{folder}=s3://{self.bucket.bucket_name}/{prefix}" for folder, prefix in self.copies.items()]
        return {"TORCHLIFT_RESULT": self.uri, "TORCHLIFT_COPIES": " ".join(copies)}

    def grant_publish(self, grantee: iam.IGrantable) -> None:
        """Allow publishing this result, by way of its temporary prefix, and reading it back."""
        if self.bucket is not None:
            for prefix in (self.prefix, f"{TEMPORARY_PREFIX}{self.prefix}", *self.copies.values()):
                permissions.write_prefix(grantee, bucket=self.bucket, prefix=prefix, key=self.key)
        if self.repository is not None:
            permissions.push_image(grantee, repository_arn=self.repository.repository_arn)

    def grant_probe(self, grantee: iam.IGrantable) -> None:
        """Allow asking whether the result is there, and those of other hashes beside it.

        An instance ends after its signal: by then an update, or a rollback, may have put another hash in this one's
        place, and who is told of the end must still be able to look.
        """
        if self.bucket is not None:
            parent = self.prefix[: self.prefix.rstrip("/").rfind("/") + 1]
            permissions.list_prefix(grantee, bucket=self.bucket, prefix=parent)
        if self.repository is not None:
            permissions.allow(grantee, actions=["ecr:DescribeImages"], resources=[self.repository.repository_arn])


@dataclass(frozen=True, kw_only=True)
class JobInput:
    """One input of a job, fetched to ``inputs/<name>/``.

    :param path: an object (a ``.zip`` is unpacked) or a prefix ending in a slash
    :param plain: the prefix was not published by a job: it has no manifest, so it is fetched without one
    """

    name: str
    bucket: s3.IBucket
    path: str
    key: kms.IKey | None = None
    plain: bool = False

    @staticmethod
    def from_result(*, name: str, result: JobResult) -> JobInput:
        """Return what another job published, as a whole: its manifest is checked when it is fetched."""
        if result.bucket is None:
            raise ValueError(f"{result.uri}: only results in S3 can be an input")
        return JobInput(name=name, bucket=result.bucket, path=result.prefix, key=result.key)

    @staticmethod
    def from_uri(scope: Construct, id: str, *, name: str, uri: str, plain: bool = True) -> JobInput:
        """Return an input that lies in a bucket of the user's, ``s3://bucket/path`` (a prefix ends in a slash)."""
        bucket, _, path = uri.removeprefix("s3://").partition("/")
        if not uri.startswith("s3://") or not bucket or not path:
            raise ValueError(f"'{uri}' is not s3://bucket/path")
        imported = s3.Bucket.from_bucket_name(scope, id, bucket)
        return JobInput(name=name, bucket=imported, path=path, plain=plain)

    @property
    def entry(self) -> str:
        """The input's entry in TORCHLIFT_INPUTS."""
        return f"{self.name}={'plain+' if self.plain else ''}s3://{self.bucket.bucket_name}/{self.path}"

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Allow reading this input and nothing beside it."""
        if self.path.endswith("/"):
            permissions.read_prefix(grantee, bucket=self.bucket, prefix=self.path, key=self.key)
        else:
            permissions.read_object(grantee, bucket=self.bucket, key=self.path)
            if self.key is not None:
                permissions.use_key(grantee, key=self.key, actions=["kms:Decrypt"])
