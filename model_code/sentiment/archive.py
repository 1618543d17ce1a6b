"""tar.gz files that are equal byte for byte when their contents are, and unpacking that trusts nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

Content = Path | bytes
CHUNK = 1 << 20
# Weights hardly shrink: level 1 takes a fifth of the default level's time for about the same size.
LEVEL = 1
MAX_BYTES = 20 << 30
MAX_FILES = 1000


class ArchiveError(ValueError):
    """An archive, or a name in one, that is refused."""


def write(target: Path, files: Mapping[str, Content]) -> None:
    """Write `files` (name in the archive → a file or its bytes) to `target`: sorted, no owner, no times, mode 0644."""
    names = sorted(files)
    for name in names:
        check_name(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name in names:
                content = files[name]
                info = tarfile.TarInfo(name)
                info.size = len(content) if isinstance(content, bytes) else content.stat().st_size
                info.mode = 0o644
                with _open(content) as stream:
                    tar.addfile(info, stream)
    partial.replace(target)


def read(
    archive: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES
) -> Iterator[tuple[str, IO[bytes]]]:
    """(name, stream) of every file, in order; a stream is valid until the next one. Folders are passed over.

    Raises ArchiveError for names that leave the folder, links, devices, names that occur twice, files beyond
    `max_files` and contents beyond `max_bytes`, and for what is no whole tar.gz file.
    """
    seen: set[str] = set()
    total = 0
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if len(seen) >= max_files:
                    raise ArchiveError(f"{archive}: more than {max_files} entries")
                name = check_name(
                    member.name.removeprefix("./").rstrip("/") if member.name != "." else "root"
                )
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    raise ArchiveError(f"{archive}: {name!r} is neither a file nor a folder")
                if name in seen:
                    raise ArchiveError(f"{archive}: {name!r} occurs twice")
                seen.add(name)
                total += member.size
                if total > max_bytes:
                    raise ArchiveError(f"{archive}: unpacks to more than {max_bytes} bytes")
                stream = tar.extractfile(member)
                if stream is None:
                    raise ArchiveError(f"{archive}: {name!r} has no content")
                yield name, stream
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ArchiveError(f"{archive}: not a whole tar.gz file ({error})") from error


def unpack(
    archive: Path, folder: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES
) -> list[str]:
    """Unpack into `folder`, which must be new or empty; returns the names. Nothing stays after an ArchiveError."""
    if folder.exists() and any(folder.iterdir()):
        raise ArchiveError(f"{folder} is not empty")
    names = []
    try:
        for name, stream in read(archive, max_bytes=max_bytes, max_files=max_files):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                shutil.copyfileobj(stream, file, CHUNK)
            names.append(name)
    except (ArchiveError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise error if isinstance(error, ArchiveError) else ArchiveError(f"{archive}: {error}") from error
    return names


def check_name(name: str) -> str:
    """`name` itself when it is a plain relative path in its shortest form. Raises ArchiveError."""
    path = PurePosixPath(name)
    if (
        not name
        or name != str(path)
        or path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or "\0" in name
    ):
        raise ArchiveError(f"refused the name {name!r}: it must be a relative path without '..'")
    return name


def sha256(stream: IO[bytes]) -> str:
    """SHA-256 of what is left of `stream`, in hex."""
    digest = hashlib.sha256()
    while block := stream.read(CHUNK):
        digest.update(block)
    return digest.hexdigest()


def content_sha256(content: Content) -> str:
    """SHA-256 of a file or of bytes, in hex."""
    with _open(content) as stream:
        return sha256(stream)


def _open(content: Content) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
