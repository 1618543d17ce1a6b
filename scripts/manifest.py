"""Write and check manifests: which files a result has, with sizes and SHA-256. Standard library only."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
from pathlib import Path

NAME = "manifest.json"
SCHEMA = 1
MAX_NAME_BYTES = 500


def main() -> int:
    """Run one subcommand; print its problems; return 3 when there are any (1 is a program that broke)."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("make", help="write the manifest of a folder")
    sub.add_argument("folder", type=Path)
    sub.add_argument("manifest", type=Path, help="the manifest's file, outside the folder")
    sub = commands.add_parser("verify", help="compare a folder with its manifest")
    sub.add_argument("folder", type=Path)
    sub.add_argument("manifest", type=Path)
    sub.add_argument("--exact", action="store_true", help="further files are an error")
    sub.add_argument("--prune", action="store_true", help="further files are removed")
    sub = commands.add_parser("listed", help="compare an S3 listing with a manifest")
    sub.add_argument("listing", type=Path, help="what list-objects-v2 printed")
    sub.add_argument("prefix")
    sub.add_argument("manifest", type=Path)
    sub = commands.add_parser("copied", help="compare a folder with the S3 listing that it was copied from")
    sub.add_argument("listing", type=Path)
    sub.add_argument("prefix")
    sub.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "make":
        problems = make(given.folder, given.manifest)
    elif given.command == "verify":
        problems = verify(given.folder, given.manifest, exact=given.exact, prune=given.prune)
    elif given.command == "listed":
        problems = listed(given.listing, given.prefix, given.manifest)
    else:
        problems = copied(given.listing, given.prefix, given.folder)
    for problem in problems[:20]:
        print(f"torchlift: {problem}", file=sys.stderr)
    return 3 if problems else 0


def make(folder: Path, manifest: Path) -> list[str]:
    """Write the manifest of ``folder``; return what makes the folder unfit for publication."""
    files, problems = scan(folder)
    if not files and not problems:
        problems.append("nothing to publish: the folder is empty")
    if NAME in files:
        problems.append(f"'{NAME}' is the name of the manifest itself")
    if problems:
        return problems
    creator = os.environ.get("CODEBUILD_BUILD_ID") or os.environ.get("TORCHLIFT_INSTANCE_ID") or "scripts/publish.sh"
    # The bundle's file name is a content hash; its bucket would say whose account this is.
    source = os.environ.get("TORCHLIFT_SOURCE", "").rsplit("/", 1)[-1]
    document = {
        "schema": SCHEMA,
        "hash": os.environ.get("TORCHLIFT_HASH", ""),
        "job": os.environ.get("TORCHLIFT_JOB", ""),
        "created_by": creator,
        "inputs": inputs(os.environ.get("TORCHLIFT_INPUTS", "")),
        "files": [describe(folder, name) for name in files],
        "versions": {"python": platform.python_version(), "source": source},
    }
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    manifest.write_text(text + "\n", encoding="utf-8")
    return []


def inputs(entries: str) -> dict[str, str]:
    """Return {input: prefix or object in its bucket} of TORCHLIFT_INPUTS: what this result was made from."""
    pairs = (entry.partition("=") for entry in entries.split())
    # Prefixes carry content hashes; the bucket would say whose account this is.
    return {name: uri.partition("s3://")[2].partition("/")[2] for name, _, uri in pairs}


def verify(folder: Path, manifest: Path, *, exact: bool, prune: bool) -> list[str]:
    """Return every difference between ``folder`` and its manifest."""
    try:
        document = json.loads(manifest.read_text(encoding="utf-8"))
        schema = document["schema"]
        promised = {entry["path"]: (entry["size"], entry["sha256"]) for entry in document["files"]}
    except (ValueError, KeyError, TypeError) as error:
        return [f"the manifest cannot be read: {type(error).__name__}: {error}"]
    if schema != SCHEMA:
        return [f"the manifest has schema {schema!r}, not {SCHEMA}"]
    problems = [f"unsafe name {name!r} in the manifest" for name in promised if unsafe(name)]
    if problems:
        return problems
    for name, (size, digest) in sorted(promised.items()):
        path = folder / name
        if not path.is_file():
            problems.append(f"'{name}' is missing")
        elif path.stat().st_size != size:
            problems.append(f"'{name}' has {path.stat().st_size} bytes, not {size}")
        elif sha256(path) != digest:
            problems.append(f"'{name}' has other content than when it was published (SHA-256 differs)")
    files, odd = scan(folder)
    extra = [name for name in files if name not in promised]
    if exact:
        problems += odd + [f"'{name}' is not in the manifest" for name in extra]
    if prune:
        for name in extra:
            (folder / name).unlink()
    return problems


def listed(listing: Path, prefix: str, manifest: Path) -> list[str]:
    """Return every difference in names and sizes between an S3 listing and a manifest."""
    document = json.loads(manifest.read_text(encoding="utf-8"))
    wanted = {entry["path"]: entry["size"] for entry in document["files"]}
    found = sizes(listing, prefix)
    return [f"'{name}' differs" for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]


def copied(listing: Path, prefix: str, folder: Path) -> list[str]:
    """Return what is missing from a folder, or has another size, after a copy of everything in an S3 listing."""
    wanted = sizes(listing, prefix)
    if not wanted:
        return [f"there is nothing under '{prefix}'"]
    problems = [f"unsafe name {name!r}" for name in wanted if unsafe(name)]
    for name, size in sorted(wanted.items()):
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            problems.append(f"'{name}' is missing or has another size")
    return problems


def sizes(listing: Path, prefix: str) -> dict[str, int]:
    """Return {name below the prefix: size} of an S3 listing; empty folder markers do not count."""
    text = listing.read_text(encoding="utf-8")
    objects = (json.loads(text) if text.strip() else {}).get("Contents") or []
    return {item["Key"][len(prefix) :]: item["Size"] for item in objects if not item["Key"].endswith("/")}


def scan(folder: Path) -> tuple[list[str], list[str]]:
    """Return the sorted relative names of a folder's files, and what may not be published."""
    files: list[str] = []
    problems: list[str] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if unsafe(name):
            problems.append(f"unsafe name {name!r}")
        elif path.is_symlink():
            problems.append(f"'{name}' is a symbolic link")
        elif path.is_file():
            files.append(name)
        elif not path.is_dir():
            problems.append(f"'{name}' is not a plain file")
    return sorted(files), problems


def unsafe(name: str) -> bool:
    """Tell whether a name could leave its folder, or mean something else to a shell, to S3 or in a log line."""
    parts = name.split("/")
    return (
        name.startswith("~")
        or "\\" in name
        or any(part in ("", ".", "..") or part.startswith("-") for part in parts)
        or not name.isprintable()
        or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES
    )


def describe(folder: Path, name: str) -> dict[str, object]:
    """Return a file's entry in the manifest."""
    path = folder / name
    return {"path": name, "size": path.stat().st_size, "sha256": sha256(path)}


def sha256(path: Path) -> str:
    """Return a file's SHA-256, read in blocks: weights are large."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
