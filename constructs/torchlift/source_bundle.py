"""SourceBundle: the part of the repository that one job runs, as an object in S3 named by its content."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from aws_cdk import AssetHashType
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from torchlift import permissions
from torchlift.content_hash import digest_files
from torchlift.staging import REPO_ROOT, collect, copy_files


class SourceBundle(Construct):
    """A zip of chosen files and folders of the repository.

    The content hash covers relative names and contents only. Caches, file times, modes and the place of the
    checkout change nothing.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        paths: Sequence[str],
        exclude: Sequence[str] = (),
        root: Path = REPO_ROOT,
    ) -> None:
        """Stage and declare the bundle.

        :param paths: files and folders relative to ``root``, such as ``["scripts", "model_code/sentiment"]``
        :param exclude: further file patterns to leave out
        :raises ValueError: a path is missing, empty, a symbolic link, or outside ``root``
        """
        super().__init__(scope, id)
        files = collect(root=root, paths=paths, exclude=exclude)
        self.paths: tuple[str, ...] = tuple(files)
        self.content_hash: str = digest_files(files)
        with tempfile.TemporaryDirectory(prefix="torchlift-") as folder:
            copy_files(files=files, target=Path(folder))
            self._asset = s3_assets.Asset(
                self, "Zip", path=folder, asset_hash=self.content_hash, asset_hash_type=AssetHashType.CUSTOM
            )
        self.bucket: s3.IBucket = self._asset.bucket
        self.key: str = self._asset.s3_object_key
        self.s3_url: str = f"s3://{self._asset.s3_bucket_name}/{self.key}"
        self.location: str = f"{self._asset.s3_bucket_name}/{self.key}"

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Allow reading this one object, not the whole bucket of assets."""
        permissions.read_object(grantee, bucket=self.bucket, key=self.key)

    def grant_build(self, grantee: iam.IGrantable) -> None:
        """Allow a build to take this object as its source, with what CodeBuild's guide asks for besides reading."""
        self.grant_read(grantee)
        permissions.allow(grantee, actions=["s3:GetObjectVersion"], resources=[self.bucket.arn_for_objects(self.key)])
        permissions.allow(
            grantee, actions=["s3:GetBucketAcl", "s3:GetBucketLocation"], resources=[self.bucket.bucket_arn]
        )
