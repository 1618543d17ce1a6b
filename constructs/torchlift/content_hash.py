"""Content hashes: what a job's result depends on, as 16 hexadecimal digits.

A hash decides whether hours of work are done again, so it must see every input and nothing else: no file times, no
absolute paths, no dictionary order, and never a CDK token, whose text differs from one synthesis to the next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

HASH_LENGTH = 16
LARGEST_TOKEN = -1e288
"""Numbers that stand for a token begin at -1.8881545897087626e289 and rise by one unit of the last place each."""


def job_hash(*, job: str, bundle_hash: str, parameters: Mapping[str, object], image: str = "") -> str:
    """Return the 16 hexadecimal digits that name a job's result.

    :param job: the job's tag value, such as ``sentiment-train``
    :param bundle_hash: :attr:`torchlift.source_bundle.SourceBundle.content_hash`: code and scripts
    :param parameters: everything else the result depends on: command, hyperparameters, data and base-model
        revision, hashes of the jobs whose results are read; JSON-like values only
    :param image: the container image (by tag or digest) in which the job runs
    :raises ValueError: a parameter is a CDK token, whose text is not stable
    :raises TypeError: a parameter is not JSON-like
    """
    document = {"job": job, "bundle": bundle_hash, "image": image, "parameters": dict(parameters)}
    return digest(document)[:HASH_LENGTH]


def digest(document: object) -> str:
    """Return the SHA-256 of ``document`` in canonical JSON (sorted keys, no spaces).

    :raises ValueError: a value is a CDK token or not a finite number
    :raises TypeError: a value has no JSON form
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    _refuse_tokens(document, path="$")
    return hashlib.sha256(text.encode()).hexdigest()


def digest_files(files: Mapping[str, Path]) -> str:
    """Return one SHA-256 over the names and the contents of ``files`` ({name in the bundle: file on disk})."""
    return digest({name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()})


def _refuse_tokens(value: object, *, path: str) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_tokens(key, path=path)
            _refuse_tokens(item, path=f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            _refuse_tokens(item, path=f"{path}[{position}]")
    elif _is_token(value):
        raise ValueError(
            f"{path} is a CDK token, whose text is not stable: give the value it stands for, or leave it out"
        )


def _is_token(value: object) -> bool:
    """Whether the CDK would put something else in this value's place, by the forms in which it writes tokens.

    Asking the CDK itself is a call to another process for every value, which some values (NaN) even end.
    """
    return (isinstance(value, str) and "{Token[" in value) or (isinstance(value, float) and value < LARGEST_TOKEN)
