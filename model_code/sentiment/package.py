"""Pack a trained model and its handler into the model.tar.gz that a SageMaker endpoint unpacks.

Standard library only. The archive has no root folder: the model's files lie at the top, `code/inference.py`
and the few modules it needs below `code/`. The same weights give the same bytes. Beside the archive lies
probe.json, with which a deployment checks the endpoint.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_code import archive
from model_code.sentiment import probe
from model_code.sentiment.labels import LabelError, labels_of_config

HERE = Path(__file__).parent
# Name below code/ in the archive → our file; imports are the same there as here.
CODE = {
    "inference.py": HERE / "inference.py",
    "model_code/__init__.py": HERE.parent / "__init__.py",
    "model_code/sentiment/__init__.py": HERE / "__init__.py",
    **{
        f"model_code/sentiment/{name}.py": HERE / f"{name}.py"
        for name in ("answering", "buckets", "classifier", "labels", "negotiation", "precision", "protocol", "toolkit")
    },
}
REQUIRED = ("config.json", "tokenizer.json", "tokenizer_config.json")
# What else of a model's folder goes along when it is there.
OPTIONAL = (
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "metrics.json",
)
INDEX = "model.safetensors.index.json"


class PackageError(ValueError):
    """A model's folder, or an archive, that would not serve."""


def main(argv: list[str] | None = None) -> int:
    """Pack; returns the exit status. What the user can put right is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python3 -m model_code.sentiment.package",
        description="Pack a trained model for a SageMaker endpoint.",
    )
    parser.add_argument("--weights", required=True, type=Path, help="folder that train.py wrote")
    parser.add_argument("--output", required=True, type=Path, help="archive to write, .../model.tar.gz")
    options = parser.parse_args(argv)
    try:
        package(options.weights, options.output)
    except (PackageError, archive.ArchiveError, probe.ProbeError, OSError) as error:
        print(f"package: {error}", file=sys.stderr)
        return 2
    return 0


def package(weights: Path, output: Path) -> None:
    """Check `weights`, pack, check the archive. Raises PackageError, ProbeError or ArchiveError, leaving nothing."""
    files = collect(weights)
    questions = probe.of_weights(weights, check_config(weights / "config.json"))
    archive.write(output, files)
    try:
        verify(output, files)
    except (PackageError, archive.ArchiveError):
        output.unlink()
        raise
    output.with_name(probe.NAME).write_bytes(questions)
    size, digest = output.stat().st_size, archive.content_sha256(output)
    print(f"{output}: {len(files)} files, {size} bytes, sha256 {digest}")


def collect(weights: Path) -> dict[str, archive.Content]:
    """Name in the archive → file, for a model's folder that will serve. Raises PackageError."""
    for name in REQUIRED:
        if not (weights / name).is_file():
            raise PackageError(f"{weights / name} is missing")
    labels = check_config(weights / "config.json")
    shards = find_shards(weights)
    tensors = {name: shape for shard in shards for name, shape in read_tensors(weights / shard).items()}
    for name in ("classifier.weight", "classifier.out_proj.weight"):
        if name in tensors and tensors[name][0] != len(labels):
            raise PackageError(f"{weights}: {name} has {tensors[name][0]} outputs, config.json {len(labels)} labels")
    names = [*REQUIRED, *shards, *(name for name in (*OPTIONAL, INDEX) if (weights / name).is_file())]
    files: dict[str, archive.Content] = {name: weights / name for name in names}
    for name, path in CODE.items():
        compile(path.read_text(encoding="utf-8"), name, "exec")  # a typing slip must fail here, not at start-up
        files[f"code/{name}"] = path
    return files


def check_config(path: Path) -> list[str]:
    """The labels of a config.json that belongs to a text classifier. Raises PackageError."""
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        labels = labels_of_config(config)
    except (ValueError, AttributeError, LabelError) as error:
        raise PackageError(f"{path}: {error}") from error
    architectures = config.get("architectures") or []
    if not any(str(name).endswith("ForSequenceClassification") for name in architectures):
        raise PackageError(f"{path}: {architectures} is no sequence classification model")
    return labels


def find_shards(weights: Path) -> list[str]:
    """Names of the weight files: model.safetensors, or those that the index lists. Raises PackageError."""
    if (weights / INDEX).is_file():
        index = json.loads((weights / INDEX).read_text(encoding="utf-8"))
        shards = sorted(set(index["weight_map"].values()))
    else:
        shards = ["model.safetensors"]
    for name in shards:
        if not (weights / name).is_file():
            raise PackageError(f"{weights / name} is missing")
    return shards


def read_tensors(path: Path) -> dict[str, list[int]]:
    """Tensor name → shape from a safetensors file, after checking that it is whole. Raises PackageError.

    Layout: 8 bytes little-endian header length, a JSON header with `data_offsets` per tensor, the tensors.
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: dict[str, Any] = json.loads(file.read(min(length, size)))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = max(int(entry["data_offsets"][1]) for entry in tensors.values())
        shapes = {name: [int(n) for n in entry["shape"]] for name, entry in tensors.items()}
    except (struct.error, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise PackageError(f"{path}: not a safetensors file ({error})") from error
    if 8 + length + end != size:
        raise PackageError(f"{path}: has {size} bytes, its header says {8 + length + end}")
    return shapes


def verify(output: Path, files: Mapping[str, archive.Content]) -> None:
    """Read the archive back and compare every file. Raises PackageError or ArchiveError."""
    found = archive.digests(output)
    wanted = {name: archive.content_sha256(content) for name, content in files.items()}
    if found != wanted or list(found) != sorted(found):
        raise PackageError(f"{output}: the archive does not hold what was put into it")


if __name__ == "__main__":
    sys.exit(main())
