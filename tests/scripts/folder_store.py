"""S3 and ECR as folders, behind an `aws` that starts in a fraction of the real one's second.

It knows the calls of the job scripts and refuses all others; the other tests show the scripts with the real CLI. One
object is written after the other, as S3 does: what is killed in between has written a part.

`python folder_store.py FOLDER s3 cp …`: buckets are folders of FOLDER, images files FOLDER/ecr/<repository>:<tag>.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


class Store:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, uri: str) -> Path:
        return self.folder / uri.removeprefix("s3://") if uri.startswith("s3://") else Path(uri)

    def copy(self, source: str, target: str, *, recursive: bool) -> int:
        if source == "-":
            self.write(self.path(target), sys.stdin.buffer.read())
            return 0
        if recursive:
            for file in files(self.path(source)):
                self.write(self.path(target) / file.relative_to(self.path(source)), file.read_bytes())
            return 0
        if not self.path(source).is_file():
            print("fatal error: 404", file=sys.stderr)
            return 1
        if target == "-":
            sys.stdout.buffer.write(self.path(source).read_bytes())
        else:
            self.write(self.path(target), self.path(source).read_bytes())
        return 0

    def write(self, path: Path, body: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # An object is there whole or not at all; what the CLI writes on this machine is not.
        if self.folder in path.parents:
            partial = self.folder / "partial" / path.name
            partial.parent.mkdir(exist_ok=True)
            partial.write_bytes(body)
            partial.replace(path)
        else:
            path.write_bytes(body)

    def list(self, bucket: str, prefix: str, *, delimited: bool) -> str:
        root = self.folder / bucket
        if not root.is_dir():
            print("NoSuchBucket", file=sys.stderr)
            sys.exit(254)
        found = {key: file for file in files(root) if (key := str(file.relative_to(root))).startswith(prefix)}
        if not delimited:
            return json.dumps({"Contents": [{"Key": key, "Size": file.stat().st_size} for key, file in found.items()]})
        rest = {key.removeprefix(prefix).partition("/")[0] for key in found if "/" in key.removeprefix(prefix)}
        # As AWS does: nothing at all where there is nothing.
        return json.dumps({"CommonPrefixes": [{"Prefix": f"{prefix}{name}/"} for name in sorted(rest)]}) if rest else ""


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words else ""


def main(folder: Path, words: list[str]) -> int:
    store = Store(folder)
    places = [word for word in words[2:] if not word.startswith("--") and word != "application/json"]
    match words[:2]:
        case ["s3", "cp"]:
            return store.copy(places[0], places[1], recursive="--recursive" in words)
        case ["s3", "rm"]:
            shutil.rmtree(store.path(places[0]), ignore_errors=True)
            return 0
        case ["s3api", "list-objects-v2"]:
            delimited = "--delimiter" in words
            print(store.list(option(words, "--bucket"), option(words, "--prefix"), delimited=delimited))
            return 0
        case ["ecr", "get-login-password"]:
            print("password")
            return 0
        case ["ecr", "batch-get-image"]:
            image = folder / "ecr" / f"{option(words, '--repository-name')}:{option(words, '--image-ids')[9:]}"
            found = [{"imageManifest": image.read_text()}] if image.exists() else []
            print(json.dumps({"images": found}))
            return 0
    print(f"folder_store.py knows no aws {' '.join(words[:2])}", file=sys.stderr)
    return 252


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
