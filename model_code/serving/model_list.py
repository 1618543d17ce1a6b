"""models.json: which models should be loaded, from where, and how much of the traffic each gets.

{"schema": 1, "models": [{"name": "model_0", "source": "s3://bucket/neuron/question-answering/<hash>/", "weight": 9},
                         {"name": "model_1", "source": "/models/new", "weight": 1}]}

A request that names no model goes to one by weight (default 1; 0: only by name). Sources never change in place: a new
model has a new prefix or folder.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_code.serving.settings import Settings
from model_code.serving.sources import is_s3, s3_client, split_s3

SCHEMA = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ModelListError(ValueError):
    """A list that cannot be read or makes no sense."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model that should be loaded."""

    name: str
    source: str
    weight: float


def parse(text: str) -> list[Entry]:
    """The entries of models.json. Raises ModelListError."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ModelListError(f"not valid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ModelListError(f'expected {{"schema": {SCHEMA}, "models": [...]}}')
    models = document.get("models")
    if not isinstance(models, list) or not models:
        raise ModelListError("'models' must be a list of at least one model")
    entries = [_entry(number, model) for number, model in enumerate(models)]
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        raise ModelListError(f"a name is there twice: {', '.join(sorted(names))}")
    if not any(entry.weight for entry in entries):
        raise ModelListError("every weight is 0, so a request that names no model would have none")
    return entries


def _entry(number: int, model: Any) -> Entry:
    where = f"models[{number}]"
    if not isinstance(model, dict) or set(model) - {"name", "source", "weight"}:
        raise ModelListError(f"{where}: expected an object with name, source and weight")
    name, source, weight = model.get("name"), model.get("source"), model.get("weight", 1)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ModelListError(f"{where}.name: {name!r}: expected up to 64 letters, digits, dots, dashes, underscores")
    if not isinstance(source, str) or not source:
        raise ModelListError(f"{where}.source: {source!r}: expected a folder or s3://bucket/prefix/")
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= 1e6:
        raise ModelListError(f"{where}.weight: {weight!r}: expected a number from 0")
    return Entry(name=name, source=source, weight=float(weight))


class ModelListFile:
    """Where the list comes from; remembers the version it saw."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._version: object = None

    def changed(self) -> list[Entry] | None:
        """The list when it is another one than at the last call that succeeded, else None. Blocks.

        Raises ModelListError, also for everything that S3 refuses.
        """
        settings = self._settings
        if not settings.models:
            found: list[Entry] | None = [
                Entry(name=f"model_{number}", source=settings.model_source, weight=1.0)
                for number in range(settings.num_models_per_server)
            ]
            version: object = "settings"
            return self._noted(version, found)
        try:
            if is_s3(settings.models):
                version, text = _read_s3(settings.models, self._version)
            else:
                text = Path(settings.models).read_text(encoding="utf-8")
                version = text
            if text is None or version == self._version:
                return None
            return self._noted(version, parse(text))
        except (OSError, UnicodeDecodeError, ModelListError) as error:
            raise ModelListError(f"{settings.models}: {error}") from error

    def forget(self) -> None:
        """Give the same list again next time: it could not be followed."""
        self._version = None

    def _noted(self, version: object, entries: list[Entry] | None) -> list[Entry] | None:
        if version == self._version:
            return None
        self._version = version
        return entries


def _read_s3(uri: str, version: object) -> tuple[object, str | None]:
    """(ETag, text); the text is None when the object still has the ETag `version`."""
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, key = split_s3(uri)
    known = {"IfNoneMatch": version} if isinstance(version, str) else {}
    try:
        answer = s3_client().get_object(Bucket=bucket, Key=key, **known)
        return answer["ETag"], answer["Body"].read().decode("utf-8")
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 304:
            return version, None
        raise ModelListError(str(error)) from error
    except BotoCoreError as error:
        raise ModelListError(str(error)) from error
