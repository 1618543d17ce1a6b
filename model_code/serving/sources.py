"""Where a model lies: a folder, or a prefix in S3 that is copied to a folder and checked against its manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

from model_code.archive import content_sha256

MANIFEST = "manifest.json"  # written last by scripts/publish.sh: without it a prefix is no result


class SourceError(RuntimeError):
    """A model that cannot be had."""


def is_s3(source: str) -> bool:
    """Whether it is an S3 address."""
    return source.startswith("s3://")


def split_s3(uri: str) -> tuple[str, str]:
    """(bucket, key). Raises SourceError."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if not is_s3(uri) or not bucket or not key:
        raise SourceError(f"{uri!r}: expected s3://bucket/key")
    return bucket, key


def s3_client() -> Any:
    """A client of S3; boto3 is needed only by those who use it."""
    import boto3

    return boto3.client("s3")


def folder_of(source: str, *, cache: Path, root: Path = Path("/")) -> Path:
    """The model's folder, an absolute one below `root`; copies it from S3 first when it is there. Blocks.

    Raises SourceError.
    """
    if not is_s3(source):
        folder = root / source.lstrip("/") if source.startswith("/") else Path(source)
        if not folder.is_dir():
            raise SourceError(f"{folder}: no such folder")
        return folder
    target = cache / hashlib.sha256(source.encode()).hexdigest()[:32]
    if not target.is_dir():
        partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            _copy(source, partial)
            # The servers of the other cores share the cache: the first to finish wins.
            try:
                partial.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return target


def _copy(source: str, folder: Path) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, prefix = split_s3(source if source.endswith("/") else f"{source}/")
    client = s3_client()
    try:
        document = json.loads(client.get_object(Bucket=bucket, Key=prefix + MANIFEST)["Body"].read())
        for entry in document["files"]:
            path, size, sha256 = str(entry["path"]), int(entry["size"]), str(entry["sha256"])
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise SourceError(f"{source}: unsafe name {path!r} in {MANIFEST}")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, prefix + path, str(folder / path))
            if (folder / path).stat().st_size != size or content_sha256(folder / path) != sha256:
                raise SourceError(f"{source}: {path!r} is not the file of {MANIFEST} (size or SHA-256 differs)")
    except (ClientError, BotoCoreError) as error:
        raise SourceError(f"{source}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{source}: {MANIFEST} cannot be read: {error!r}") from error
