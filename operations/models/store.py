"""The models of a multi-model endpoint: one archive each below its prefix, which is all that SageMaker asks of them."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from model_code.text_encoding import engine as engines
from model_code.text_encoding.client import Limits
from model_code.text_encoding.engine import Engine, EngineError
from operations.account import Account
from operations.failure import CommandFailed, error_code
from operations.progress import Moved
from settings import names

WORKLOAD = "text-encoding"
SUFFIX = ".tar.gz"
ENGINES = f"engines/{WORKLOAD}/"
"""Below it each engine build has a prefix, named as its models' prefix is."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "config.json")
"""The first is the tokenizer; the others tell its padding token."""
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

    def models(self) -> list[Model]:
        """Every model, by name."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix, Delimiter="/")
        found = [item for page in pages for item in page.get("Contents", []) if item["Key"].endswith(SUFFIX)]
        built, own = self._built(), self.engine() if found else None

        def model(item: Mapping[str, Any]) -> Model:
            name = str(item["Key"])[len(self.prefix) : -len(SUFFIX)]
            about = self._written_about(name) or (describe(own) if own and name in built else {})
            return Model(name=name, bytes=int(item["Size"]), when=item["LastModified"], about=about)

        with ThreadPoolExecutor(16) as pool:  # one request a model
            return list(pool.map(model, found))

    def engine(self) -> Engine | None:
        """The engine that the deployment built itself, on the endpoint's GPU and for its Triton; None without one.

        :raises CommandFailed: what is there is no engine.json
        """
        body = self._build_file(engines.FILE)
        if body is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / engines.FILE
            path.write_bytes(body)
            try:
                return engines.read(path)
            except EngineError as error:
                raise CommandFailed(str(error).replace(str(path), f"s3://{self.bucket}/{self._build_key()}")) from None

    def interface(self, name: str) -> tuple[Limits, list[str]]:
        """What a model takes, and its outputs. Raises CommandFailed when there is none, or nothing tells it."""
        about = self.get(name).about or (describe(own) if (own := self.engine()) else {})
        if not about:
            raise CommandFailed(f"nothing tells what {name} takes: neither its archive nor the deployment's build.")
        low, _, high = ([int(size) for size in shape.split("x")] for shape in about["shapes"].split())
        inputs = tuple(about["inputs"].split())
        limits = Limits(max_batch=high[0], max_sequence=high[1], min_sequence=low[1], inputs=inputs)
        return limits, about["outputs"].split()

    def tokenizer(self, folder: Path) -> None:
        """Bring the tokenizer that the deployment's build published here. Raises CommandFailed without one."""
        prefix = self._build_key("")
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        keys = [str(item["Key"]) for page in pages for item in page.get("Contents", [])]
        place = next((key.removesuffix(TOKENIZER[0]) for key in keys if key.endswith(f"/{TOKENIZER[0]}")), None)
        if place is None:
            raise CommandFailed(f"no {TOKENIZER[0]} in s3://{self.bucket}/{prefix}: name a folder, --tokenizer.")
        for file in TOKENIZER:
            if place + file in keys:
                self.s3.download_file(self.bucket, place + file, str(folder / file))

    def get(self, name: str) -> Model:
        """A model. Raises CommandFailed, with those that there are, when there is none."""
        found = {model.name: model for model in self.models()}
        if name not in found:
            known = ", ".join(found) or "none"
            raise CommandFailed(f"deployment '{self.account.deployment}' has no model '{name}'. It has: {known}.")
        return found[name]

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

    def _built(self) -> set[str]:
        """The models that the deployment's own build published, from its manifest."""
        body = self._build_file("manifest.json")
        if body is None:
            return set()
        try:
            files = [str(entry["path"]) for entry in json.loads(body)["files"]]
        except (ValueError, KeyError, TypeError):
            return set()
        return {file.rpartition("/")[2].removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)}

    def _written_about(self, name: str) -> dict[str, str]:
        found = dict(self.s3.head_object(Bucket=self.bucket, Key=self.key(name))["Metadata"])
        return {key: value for key, value in found.items() if key != "sha256"} if "tensorrt" in found else {}

    def _build_key(self, file: str = engines.FILE) -> str:
        return f"{ENGINES}{self.prefix.rstrip('/').rpartition('/')[2]}/{file}"

    def _build_file(self, file: str) -> bytes | None:
        try:
            return bytes(self.s3.get_object(Bucket=self.bucket, Key=self._build_key(file))["Body"].read())
        except ClientError as error:
            if error_code(error) not in ("NoSuchKey", "404"):
                raise
            return None


def describe(engine: Engine) -> dict[str, str]:
    """An engine in few words, each fit for an object's metadata. Shapes: batch x sequence, least, best, most."""
    shapes = (engine.shapes.minimum, engine.shapes.optimum, engine.shapes.maximum)
    return {
        "tensorrt": engine.tensorrt,
        "precision": engine.precision,
        "gpu": engine.gpu,
        "compute-capability": engine.compute_capability,
        "shapes": " ".join(f"{batch}x{sequence}" for batch, sequence in shapes),
        "inputs": " ".join(engine.inputs),
        "outputs": " ".join(engine.outputs),
    }
