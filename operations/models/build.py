"""What a deployment's own build of text encoding left in S3: its engine, its tokenizer, the names of its models."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from model_code.text_encoding import engine as engines
from model_code.text_encoding.client import Limits
from model_code.text_encoding.engine import Engine, EngineError
from operations.account import Account
from operations.failure import CommandFailed, error_code
from operations.versions.in_service import model_data

WORKLOAD = "text-encoding"
SUFFIX = ".tar.gz"
ENGINES = f"engines/{WORKLOAD}/"
"""Below it each build has a prefix, named as its models' prefix is."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "config.json")
"""The first is the tokenizer; the others tell its padding token."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """One build. `hash` names its prefix."""

    s3: Any
    bucket: str
    hash: str

    def engine(self) -> Engine | None:
        """The engine, built on the endpoint's GPU for its Triton; None without one.

        :raises CommandFailed: what is there is no engine.json
        """
        body = self._file(engines.FILE)
        if body is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / engines.FILE
            path.write_bytes(body)
            try:
                return engines.read(path)
            except EngineError as error:
                where = f"s3://{self.bucket}/{self._key(engines.FILE)}"
                raise CommandFailed(str(error).replace(str(path), where)) from None

    def models(self) -> set[str]:
        """Names of the models that it published, from its manifest; none without one."""
        body = self._file("manifest.json")
        try:
            files = [str(entry["path"]) for entry in json.loads(body or b"")["files"]]
        except (ValueError, KeyError, TypeError):
            return set()
        return {file.rpartition("/")[2].removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)}

    def tokenizer(self, folder: Path) -> None:
        """Bring the tokenizer here. Raises CommandFailed without one."""
        prefix = self._key("")
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        keys = [str(item["Key"]) for page in pages for item in page.get("Contents", [])]
        place = next((key.removesuffix(TOKENIZER[0]) for key in keys if key.endswith(f"/{TOKENIZER[0]}")), None)
        if place is None:
            raise CommandFailed(f"no {TOKENIZER[0]} in s3://{self.bucket}/{prefix}: name a folder, --tokenizer.")
        for file in TOKENIZER:
            if place + file in keys:
                self.s3.download_file(self.bucket, place + file, str(folder / file))

    def _key(self, file: str) -> str:
        return f"{ENGINES}{self.hash}/{file}"

    def _file(self, file: str) -> bytes | None:
        try:
            return bytes(self.s3.get_object(Bucket=self.bucket, Key=self._key(file))["Body"].read())
        except ClientError as error:
            if error_code(error) not in ("NoSuchKey", "404"):
                raise
            return None


def single_model(account: Account, endpoint: str) -> tuple[str, Build] | None:
    """Name and build of the one model of an endpoint in single-model mode; None for another endpoint."""
    sagemaker = account.client("sagemaker")
    config = sagemaker.describe_endpoint(EndpointName=endpoint)["EndpointConfigName"]
    (variant, *_) = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    model = sagemaker.describe_model(ModelName=variant["ModelName"])
    bucket, _, key = model_data(model.get("PrimaryContainer") or model["Containers"][0])[5:].partition("/")
    if not key.endswith(SUFFIX) or key.count("/") < 2:
        return None
    *_, hash, archive = key.split("/")
    return archive.removesuffix(SUFFIX), Build(s3=account.client("s3"), bucket=bucket, hash=hash)


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


def interface(about: dict[str, str]) -> tuple[Limits, list[str]]:
    """What a model takes, and its outputs, from the words of `describe`."""
    low, _, high = ([int(size) for size in shape.split("x")] for shape in about["shapes"].split())
    inputs = tuple(about["inputs"].split())
    limits = Limits(max_batch=high[0], max_sequence=high[1], min_sequence=low[1], inputs=inputs)
    return limits, about["outputs"].split()
