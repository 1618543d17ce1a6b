"""The models of a question-answering fleet: models.json, which every server follows. Changing it is no deploy."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from model_code.question_answering import manifest as traces
from model_code.serving import model_list
from model_code.serving.model_list import Entry, ModelListError
from operations.account import Account
from operations.failure import CommandFailed, error_code
from settings import inferentia, names

WORKLOAD = "question-answering"
TRACES = f"neuron/{WORKLOAD}/"
"""Below it each compiled model has a prefix: all that the hosts may read."""
MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A compiled model in the bucket. `weights_mib`: of all its shapes together, as their files have them."""

    url: str
    model: str
    backend: str
    neuron_sdk: str | None
    shapes: int
    weights_mib: float


class Fleet:
    """models.json of one deployment."""

    def __init__(self, account: Account) -> None:
        """Find it. Raises CommandFailed when the deployment has no fleet."""
        self.account = account
        self.s3 = account.client("s3")
        url = account.parameter(WORKLOAD, "models")
        if url is None:
            parameter = names.parameter_name(account.deployment, WORKLOAD, "models")
            raise CommandFailed(
                f"deployment '{account.deployment}' has no question-answering fleet in {account.region}: the SSM "
                f"parameter {parameter} does not exist."
            )
        self.url = url
        self.bucket, _, self.key = url.removeprefix("s3://").partition("/")

    def read(self) -> tuple[list[Entry], str]:
        """The list, and the ETag of the file that has it. Raises CommandFailed when there is none, or it is no list."""
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=self.key)
            return model_list.parse(answer["Body"].read().decode("utf-8")), str(answer["ETag"])
        except ClientError as error:
            if error_code(error) != "NoSuchKey":
                raise
            raise CommandFailed(f"{self.url} does not exist: the fleet's first deploy writes it.") from None
        except (ModelListError, UnicodeDecodeError) as error:
            raise CommandFailed(f"{self.url}: {error}. The servers keep the models that they have.") from None

    def write(self, entries: Sequence[Entry], etag: str) -> None:
        """Put the list in place of the one with that ETag.

        :raises CommandFailed: the servers would refuse the list, or somebody has changed it since
        """
        text = dump(entries)
        try:
            model_list.parse(text)
        except ModelListError as error:
            raise CommandFailed(f"nothing was changed: {error}.") from None
        try:
            self.s3.put_object(
                Bucket=self.bucket, Key=self.key, Body=text.encode(), ContentType="application/json", IfMatch=etag
            )
        except ClientError as error:
            if error_code(error) not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
            raise CommandFailed(f"nothing was changed: somebody else just changed {self.url}. Try again.") from None

    def source(self, given: str) -> str:
        """The prefix of a compiled model, from its address or the 16 digits of its hash.

        :raises CommandFailed: it is none of this deployment's, which the hosts may not read
        """
        ours = f"s3://{self.bucket}/{TRACES}"
        if re.fullmatch(r"[0-9a-f]{16}", given):
            return f"{ours}{given}/"
        url = given if given.endswith("/") else f"{given}/"
        if not url.startswith(ours) or url == ours:
            raise CommandFailed(f"{given}: the fleet reads compiled models from {ours}<16 digits>/ only.")
        return url

    def trace(self, url: str) -> Trace:
        """The compiled model at a prefix, with every file of its manifest there in full. Raises CommandFailed."""
        prefix = url.removeprefix(f"s3://{self.bucket}/")
        manifest, about = self._json(prefix + MANIFEST, url), self._json(prefix + traces.NAME, url)
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        there = {item["Key"].removeprefix(prefix): item["Size"] for page in pages for item in page.get("Contents", [])}
        try:
            wanted = {str(file["path"]): int(file["size"]) for file in manifest["files"]}
            if (about["schema"], about["task"]) != (traces.SCHEMA, traces.TASK):
                raise CommandFailed(f"{url}: {traces.NAME} is for {about['task']}, schema {about['schema']}.")
            files = {str(shape["file"]) for shape in about["shapes"]}
            needed = {*wanted, *files, *map(str, about["tokenizer_files"])}
            missing = sorted(name for name in needed if name not in there or there[name] != wanted.get(name))
            if missing:
                raise CommandFailed(f"{url}: {missing[0]} is missing, or not the one that {MANIFEST} lists.")
            return Trace(
                url=url,
                model=str(about["source"]),
                backend=str(about["backend"]),
                neuron_sdk=about["neuron_sdk"],
                shapes=len(about["shapes"]),
                weights_mib=sum(there[name] for name in files) / 2**20,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CommandFailed(f"{url}: not a compiled model as this version publishes it: {error!r}.") from None

    def refuse_unfit(self, new: Trace, *, beside: Sequence[Entry]) -> None:
        """Raise CommandFailed when the fleet cannot hold a compiled model beside those that it has.

        It must be compiled as they are, by no later Neuron SDK, and fit on the cores that the settings name.
        """
        held = [self.trace(self.source(name)) for name in map(_hash, beside) if name]
        if not held:
            raise CommandFailed(f"nothing tells what {self.url} has already: no source in it names a compiled model.")
        own = max(held, key=lambda one: _release(one.neuron_sdk))
        if new.backend != own.backend:
            raise CommandFailed(f"{new.url} is compiled for {new.backend}; the fleet's own model for {own.backend}.")
        if _release(new.neuron_sdk) > _release(own.neuron_sdk):
            raise CommandFailed(
                f"{new.url} is compiled by Neuron SDK {new.neuron_sdk}; the fleet's image has {own.neuron_sdk}, which "
                "runs what the same or an older one compiled."
            )
        section = self.account.settings.question_answering
        if section is None or own.backend != "neuronx":
            return
        found = inferentia.advise(
            section.instance_type,
            len(held) + 1,
            weights_mib=sum(one.weights_mib for one in (*held, new)) / (len(held) + 1),
            shapes=1,
            num_cores=section.num_cores,
        )
        if found.refused:
            raise CommandFailed(
                f"{len(held) + 1} models do not fit on a core of {section.instance_type}: {' '.join(found.refused)} "
                "Remove one first, or take a larger type (torchlift advise)."
            )

    def _json(self, key: str, url: str) -> dict[str, Any]:
        try:
            found = json.loads(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())
            if not isinstance(found, dict):
                raise ValueError("no object")
            return found
        except ClientError as error:
            if error_code(error) != "NoSuchKey":
                raise
            name = key.rpartition("/")[2]
            raise CommandFailed(f"{url}: no {name} there, so no compiled model.") from None
        except ValueError as error:
            raise CommandFailed(f"s3://{self.bucket}/{key}: not valid JSON: {error}.") from None


def _hash(entry: Entry) -> str | None:
    """Of the compiled model: its prefix, and its folder in the serving image, end with it."""
    found = re.search(r"/([0-9a-f]{16})/?$", entry.source)
    return found[1] if found else None


def _release(sdk: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", sdk or ""))


def dump(entries: Sequence[Entry]) -> str:
    """models.json."""
    models = [{"name": entry.name, "source": entry.source, "weight": entry.weight} for entry in entries]
    return json.dumps({"schema": model_list.SCHEMA, "models": models}, indent=2) + "\n"
