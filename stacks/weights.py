"""Trained weights, as the stack that makes them hands them to the one that serves them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from torchlift.job_data import JobInput

WEIGHTS_PREFIX = "weights/sentiment/"
_PUBLISHED = re.compile(r"weights/sentiment/[0-9a-f]{16}/")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Weights in S3. Nothing here refers to the training stack: its templates must not tie each other.

    :param uri: `s3://bucket/prefix/`
    :param identity: literal text that names these weights and no others; goes into hashes
    :param brought: the user brought them, so `uri` is literal and perhaps not ours
    """

    uri: str
    identity: str
    bucket: s3.IBucket
    key: kms.IKey
    brought: bool

    @staticmethod
    def published(version: str, *, bucket: s3.IBucket, key: kms.IKey) -> Weights:
        """Weights that a job of ours publishes, or published some time ago, by their version: that job's hash."""
        uri = f"s3://{bucket.bucket_name}/{WEIGHTS_PREFIX}{version}/"
        return Weights(uri=uri, identity=version, bucket=bucket, key=key, brought=False)

    @staticmethod
    def given(*, uri: str, bucket: s3.IBucket, key: kms.IKey) -> Weights:
        """Weights that are there: somebody else's, or of an earlier training run of ours."""
        return Weights(uri=uri, identity=uri, bucket=bucket, key=key, brought=True)

    def as_input(self, scope: Construct, id: str, *, name: str) -> JobInput:
        """The weights as a job's input, verified against their manifest when a job of ours published them."""
        if not self.brought:
            return JobInput(name=name, bucket=self.bucket, path=f"{WEIGHTS_PREFIX}{self.identity}/", key=self.key)
        bucket, _, path = self.uri.removeprefix("s3://").partition("/")
        return JobInput(
            name=name,
            bucket=s3.Bucket.from_bucket_name(scope, id, bucket),
            path=path,
            # Earlier weights lie in our own bucket, under our own key.
            key=self.key,
            plain=_PUBLISHED.fullmatch(path) is None,
        )
