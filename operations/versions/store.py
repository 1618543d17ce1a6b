"""Model versions in a deployment's artifact bucket: complete when their manifest is there, which is written last."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from operations.account import Account
from operations.failure import CommandFailed, error_code
from operations.progress import Moved

PREFIX = "weights/sentiment/"
MANIFEST = "manifest.json"
SCHEMA = 1
"""Of the manifest: scripts/manifest.py writes and checks the same document."""
VERSION = re.compile(r"[0-9a-f]{16}")
FROM = "torchlift-from"
"""Object metadata of a manifest: the deployment that a version was promoted from."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One complete version. `origin`: the deployment that it was promoted from; `raw`: the manifest's bytes."""

    name: str
    when: datetime
    manifest: Mapping[str, Any]
    raw: bytes
    origin: str | None

    @property
    def files(self) -> dict[str, int]:
        """{file: bytes}."""
        return {str(entry["path"]): int(entry["size"]) for entry in self.manifest["files"]}

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(self.files.values())

    @property
    def made_by(self) -> str:
        """The job, or the command, that made it; where it was promoted from."""
        made = str(self.manifest.get("job") or self.manifest.get("created_by") or "unknown")
        return f"{made}, from {self.origin}" if self.origin else made


class Store:
    """The versions of one deployment."""

    def __init__(self, account: Account) -> None:
        """Find the bucket. Raises CommandFailed when the deployment has none."""
        self.account = account
        self.s3 = account.client("s3")
        self.bucket = account.bucket()

    def names(self) -> list[str]:
        """Every prefix that could be a version, complete or not."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=PREFIX, Delimiter="/")
        found = [item["Prefix"][len(PREFIX) : -1] for page in pages for item in page.get("CommonPrefixes", [])]
        return [name for name in found if VERSION.fullmatch(name)]

    def versions(self) -> list[Version]:
        """Every complete version, the newest first."""
        found = [version for name in self.names() if (version := self.find(name)) is not None]
        return sorted(found, key=lambda version: version.when, reverse=True)

    def find(self, name: str) -> Version | None:
        """A complete version; None for a prefix without manifest. Raises CommandFailed on a broken manifest."""
        if VERSION.fullmatch(name) is None:
            raise CommandFailed(f"'{name}' is no version: a version is 16 digits of 0-9 and a-f.")
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=self.key(name, MANIFEST))
        except ClientError as error:
            if error_code(error) not in ("NoSuchKey", "404"):
                raise
            return None
        raw = answer["Body"].read()
        return Version(
            name=name,
            when=answer["LastModified"],
            manifest=parse_manifest(raw, where=f"{self.uri(name)}{MANIFEST}"),
            raw=raw,
            origin=answer.get("Metadata", {}).get(FROM),
        )

    def get(self, name: str) -> Version:
        """A complete version. Raises CommandFailed, with those that there are, when there is none."""
        version = self.find(name)
        if version is None:
            known = ", ".join(item.name for item in self.versions()) or "none"
            raise CommandFailed(f"Deployment '{self.account.deployment}' has no version {name}. It has: {known}.")
        return version

    def document(self, version: Version, file: str) -> dict[str, Any]:
        """A JSON file of a version, such as metrics.json; empty when the version has none that can be read."""
        if file not in version.files:
            return {}
        body = self.s3.get_object(Bucket=self.bucket, Key=self.key(version.name, file))["Body"].read()
        try:
            found = json.loads(body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def download(self, version: Version, file: str, target: Path, progress: Moved) -> None:
        """Bring a file here. Raises CommandFailed when it is not what the manifest says."""
        self.s3.download_file(self.bucket, self.key(version.name, file), str(target), Callback=progress)
        wanted = {entry["path"]: entry["sha256"] for entry in version.manifest["files"]}[file]
        if sha256(target) != wanted:
            raise CommandFailed(f"{self.uri(version.name)}{file} has other content than its manifest says (SHA-256).")

    def upload(self, name: str, file: str, source: Path, progress: Moved) -> None:
        """Put a file under a version's prefix; S3 refuses what does not arrive with its SHA-256."""
        self.s3.upload_file(
            str(source),
            self.bucket,
            self.key(name, file),
            ExtraArgs={"ChecksumAlgorithm": "SHA256"},
            Callback=progress,
            # Ctrl-C must end the parts that are on their way, not wait for a gigabyte.
            Config=TransferConfig(multipart_chunksize=16 * 2**20, max_concurrency=8),
        )

    def complete(self, name: str, raw: bytes, *, origin: str | None = None) -> bool:
        """Write the manifest, which makes a version of the prefix; False when another one was faster.

        :raises CommandFailed: what lies under the prefix is not what the manifest lists
        """
        wanted = {str(entry["path"]): int(entry["size"]) for entry in json.loads(raw)["files"]}
        found = {key: size for key, size in self.listing(name).items() if key != MANIFEST}
        if found != wanted:
            odd = sorted(file for file in {*found, *wanted} if found.get(file) != wanted.get(file))
            raise CommandFailed(f"{self.uri(name)} does not hold what was sent: {', '.join(odd[:5])}.")
        try:
            self.s3.put_object(
                Bucket=self.bucket,
                Key=self.key(name, MANIFEST),
                Body=raw,
                ContentType="application/json",
                Metadata={FROM: origin} if origin else {},
                IfNoneMatch="*",
            )
        except ClientError as error:
            if error_code(error) != "PreconditionFailed":
                raise
            return False
        return True

    def delete(self, name: str) -> None:
        """Remove a version, its manifest first: from then on it is none, whatever happens to the rest."""
        self.s3.delete_object(Bucket=self.bucket, Key=self.key(name, MANIFEST))
        self.clear(name)

    def clear(self, name: str) -> None:
        """Remove what lies under the prefix of a version that is not complete."""
        files = list(self.listing(name))
        if MANIFEST in files:
            return
        for start in range(0, len(files), 1000):
            keys = [{"Key": self.key(name, file)} for file in files[start : start + 1000]]
            answer = self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": keys, "Quiet": True})
            for failed in answer.get("Errors", []):
                raise CommandFailed(f"s3://{self.bucket}/{failed['Key']} was not deleted: {failed['Message']}")

    def listing(self, name: str) -> dict[str, int]:
        """{file: bytes} of everything under a version's prefix."""
        prefix = self.key(name, "")
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return {item["Key"][len(prefix) :]: item["Size"] for page in pages for item in page.get("Contents", [])}

    def key(self, name: str, file: str) -> str:
        """The object key of a version's file."""
        return f"{PREFIX}{name}/{file}"

    def uri(self, name: str) -> str:
        """`s3://bucket/weights/sentiment/<version>/`."""
        return f"s3://{self.bucket}/{self.key(name, '')}"


def parse_manifest(raw: bytes, *, where: str) -> dict[str, Any]:
    """A manifest that can be relied on. Raises CommandFailed naming `where` it lies."""
    try:
        document = json.loads(raw)
        entries = [(str(entry["path"]), int(entry["size"]), str(entry["sha256"])) for entry in document["files"]]
        schema = document["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"{where} is no manifest ({type(error).__name__}: {error}).") from None
    if schema != SCHEMA or not entries:
        raise CommandFailed(f"{where} has schema {schema!r} and {len(entries)} files; known is schema {SCHEMA}.")
    for path, _, _ in entries:
        if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise CommandFailed(f"{where} names an unsafe file: {path!r}.")
    return dict(document)


def make_manifest(folder: Path, files: Sequence[str], *, created_by: str) -> tuple[str, bytes]:
    """The version, which is a hash over the files' names and contents, and the bytes of its manifest."""
    entries = [
        {"path": name, "size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
        for name in sorted(files)
    ]
    content = "".join(f"{entry['sha256']}  {entry['path']}\n" for entry in entries)
    version = hashlib.sha256(content.encode()).hexdigest()[:16]
    document = {
        "schema": SCHEMA,
        "hash": version,
        "job": "",
        "created_by": created_by,
        "inputs": {},
        "files": entries,
        "versions": {},
    }
    return version, (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def sha256(path: Path) -> str:
    """A file's SHA-256, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
