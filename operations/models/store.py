"""The models of a multi-model endpoint: one archive each below its prefix, which is all that SageMaker asks of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from model_code.text_encoding.engine import Engine
from operations.account import Account
from operations.failure import CommandFailed, error_code
from operations.models.build import SUFFIX, WORKLOAD, Build, describe
from operations.progress import Moved
from settings import names

WAITING = "tmp/models/"
"""Where an archive waits until it is whole: no endpoint looks there, and the bucket drops what is left there."""
MAX_BYTES = 5 * 2**30
"""What S3 copies in one step, all or nothing (API reference, CopyObject)."""
NEW_NAME = (
    "SageMaker loads no archive anew: instances that have the old one go on serving it. Add the new one under a new "
    "name, and remove the old one when no client asks for it any more"
)


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model. `about`: the engine in few words (`describe`), empty when nobody wrote down what the archive holds."""

    name: str
    bytes: int
    when: datetime
    about: Mapping[str, str]


class Store:
    """The models of one deployment."""

    def __init__(self, account: Account) -> None:
        """Find the prefix. Raises CommandFailed when the deployment has no multi-model endpoint."""
        self.account = account
        self.s3 = account.client("s3")
        url = account.parameter(WORKLOAD, "models")
        if url is None:
            parameter = names.parameter_name(account.deployment, WORKLOAD, "models")
            raise CommandFailed(
                f"deployment '{account.deployment}' has no multi-model endpoint in {account.region}: the SSM parameter "
                f'{parameter} does not exist. With mode = "single-model" the one model is part of the deploy.'
            )
        self.bucket, _, self.prefix = url.removeprefix("s3://").partition("/")
        self.build = Build(s3=self.s3, bucket=self.bucket, hash=self.prefix.rstrip("/").rpartition("/")[2])

    def models(self) -> list[Model]:
        """Every model, by name."""
        found = self._archives(self.prefix)
        built, own = self.build.models(), self.build.engine() if found else None

        def model(item: Mapping[str, Any]) -> Model:
            name = str(item["Key"])[len(self.prefix) : -len(SUFFIX)]
            about = self._written_about(name) or (describe(own) if own and name in built else {})
            return Model(name=name, bytes=int(item["Size"]), when=item["LastModified"], about=about)

        with ThreadPoolExecutor(16) as pool:  # one request a model
            return list(pool.map(model, found))

    def about(self, name: str) -> dict[str, str]:
        """A model's engine in few words; empty when nobody wrote them down.

        :raises CommandFailed: there is no such model; the text has those that there are
        """
        try:
            written = self._written_about(name)
        except ClientError as error:
            if error_code(error) not in ("404", "NoSuchKey"):
                raise
            known = ", ".join(self.names()) or "none"
            where = f"deployment '{self.account.deployment}'"
            raise CommandFailed(f"{where} has no model '{name}'. It has: {known}.") from None
        own = self.build.engine()
        return written or (describe(own) if own and name in self.build.models() else {})

    def names(self) -> list[str]:
        """The models' names."""
        return self._names_in(self.prefix)

    def left_behind(self) -> dict[str, list[str]]:
        """{prefix of an earlier build: names of models that were added to it and are in the one that serves no more}"""
        above = f"{self.prefix.rstrip('/').rpartition('/')[0]}/"
        served, found = set(self.names()), {}
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=above, Delimiter="/")
        for prefix in (str(item["Prefix"]) for page in pages for item in page.get("CommonPrefixes", [])):
            if prefix == self.prefix:
                continue
            earlier = Build(s3=self.s3, bucket=self.bucket, hash=prefix.rstrip("/").rpartition("/")[2])
            missing = set(self._names_in(prefix)) - served - earlier.models()
            if missing:
                found[prefix] = sorted(missing)
        return found

    def refuse_taken(self, name: str, *, sha256: str) -> None:
        """Raise CommandFailed for a name that an instance may know with other content, even if it was removed since."""
        key, prefix = self.key(name), f"s3://{self.bucket}/{self.prefix}"
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=key)
        for version in (item for page in pages for item in page.get("Versions", []) if item["Key"] == key):
            if version["IsLatest"]:
                raise CommandFailed(f"'{name}' is in {prefix} already. {NEW_NAME}.")
            before = self.s3.head_object(Bucket=self.bucket, Key=key, VersionId=version["VersionId"])
            if before["Metadata"].get("sha256") != sha256:
                when = f"{version['LastModified']:%Y-%m-%d %H:%M}"
                raise CommandFailed(f"'{name}' was another model in {prefix} ({when} UTC). {NEW_NAME}.")

    def add(self, name: str, archive: Path, engine: Engine, *, sha256: str, moved: Moved) -> None:
        """Publish an archive under a model's name: whole or not at all, and never over another one.

        It goes to a key that no endpoint reads, S3 refusing bytes that differ from their SHA-256, and from there to its
        place in one step. Raises CommandFailed when somebody else was faster.
        """
        waiting = f"{WAITING}{uuid.uuid4().hex}/{name}{SUFFIX}"
        metadata = describe(engine) | {"sha256": sha256}
        try:
            self.s3.upload_file(
                str(archive),
                self.bucket,
                waiting,
                ExtraArgs={"ChecksumAlgorithm": "SHA256", "Metadata": metadata},
                Callback=moved,
            )
            there = self.s3.head_object(Bucket=self.bucket, Key=waiting)["ContentLength"]
            if there != archive.stat().st_size:
                raise CommandFailed(f"{archive}: {there:,} bytes of {archive.stat().st_size:,} arrived. Try again.")
            self.s3.copy_object(
                Bucket=self.bucket,
                Key=self.key(name),
                CopySource={"Bucket": self.bucket, "Key": waiting},
                IfNoneMatch="*",
            )
        except ClientError as error:
            if error_code(error) not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
            raise CommandFailed(f"somebody else added '{name}' meanwhile. {NEW_NAME}.") from None
        finally:
            # The bucket's own rule would do it in time; the error that brought us here must not be hidden by another.
            with suppress(ClientError):
                self.s3.delete_object(Bucket=self.bucket, Key=waiting)

    def remove(self, name: str) -> None:
        """Take a model's archive away."""
        self.s3.delete_object(Bucket=self.bucket, Key=self.key(name))

    def key(self, name: str) -> str:
        """The object key of a model's archive."""
        return f"{self.prefix}{name}{SUFFIX}"

    def _names_in(self, prefix: str) -> list[str]:
        return [str(item["Key"])[len(prefix) : -len(SUFFIX)] for item in self._archives(prefix)]

    def _archives(self, prefix: str) -> list[Mapping[str, Any]]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, Delimiter="/")
        return [item for page in pages for item in page.get("Contents", []) if item["Key"].endswith(SUFFIX)]

    def _written_about(self, name: str) -> dict[str, str]:
        found = dict(self.s3.head_object(Bucket=self.bucket, Key=self.key(name))["Metadata"])
        return {key: value for key, value in found.items() if key != "sha256"} if "tensorrt" in found else {}
