"""tar.gz files that are equal byte for byte when their contents are, and unpacking that trusts nothing."""

from __future__ import annotations

import contextlib
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
# Weights hardly shrink: level 1 takes a fraction of the default level's time for about the same size.
LEVEL = 1
MAX_BYTES = 20 << 30
MAX_FILES = 1000


class ArchiveError(ValueError):
    """An archive, or a name in one, that is refused."""


def write(target: Path, files: Mapping[str, Content]) -> None:
    """Write `files` (name in the archive → a file or its bytes): sorted, no owner, no times, mode 0644."""
    names = sorted(check_name(name) for name in files)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with (
        partial.open("wb") as raw,
        gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in names:
            content = files[name]
            info = tarfile.TarInfo(name)
            info.size = len(content) if isinstance(content, bytes) else content.stat().st_size
            info.mode = 0o644
            with _open(content) as stream:
                tar.addfile(info, stream)
    partial.replace(target)


def unpack(archive: Path, folder: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> list[str]:
    """Unpack into `folder`, which must be new or empty; returns the names in order.

    Raises ArchiveError, and leaves nothing behind, for names that leave the folder or occur twice, links,
    devices, more than `max_files` entries, contents beyond `max_bytes`, and what is no whole tar.gz file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ArchiveError(f"{folder} is not an empty folder")
    names = []
    try:
        with _whole(archive):
            for name, stream in _members(archive, max_bytes=max_bytes, max_files=max_files):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    shutil.copyfileobj(stream, file, CHUNK)
                names.append(name)
    except ArchiveError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return names


def digests(archive: Path) -> dict[str, str]:
    """Name → SHA-256 of every file, in the archive's order. Raises ArchiveError as `unpack` does."""
    with _whole(archive):
        members = _members(archive, max_bytes=MAX_BYTES, max_files=MAX_FILES)
        return {name: _sha256(stream) for name, stream in members}


def content_sha256(content: Content) -> str:
    """SHA-256 of a file or of bytes, in hex."""
    with _open(content) as stream:
        return _sha256(stream)


def check_name(name: str) -> str:
    """`name` itself when it is a plain relative path in its shortest form. Raises ArchiveError."""
    path = PurePosixPath(name)
    plain = name == str(path) and not path.is_absolute() and ".." not in path.parts
    if not plain or name in ("", ".") or "\\" in name or "\0" in name:
        raise ArchiveError(f"refused the name {name!r}: it must be a relative path without '..'")
    return name


def _members(archive: Path, *, max_bytes: int, max_files: int) -> Iterator[tuple[str, IO[bytes]]]:
    """(name, stream) of every file; a stream is valid until the next one. Folders are passed over."""
    seen: set[str] = set()
    total = 0
    with gzip.open(archive) as packed, tarfile.open(fileobj=packed, mode="r:") as tar:
        for count, member in enumerate(tar, start=1):
            if count > max_files:
                raise ArchiveError(f"{archive}: more than {max_files} entries")
            if member.isdir() and member.name == ".":
                continue
            name = check_name(member.name.removeprefix("./"))
            if member.isdir():
                continue
            stream = tar.extractfile(member) if member.isreg() and not member.issparse() else None
            if stream is None:
                raise ArchiveError(f"{archive}: {name!r} is neither a plain file nor a folder")
            if name in seen:
                raise ArchiveError(f"{archive}: {name!r} occurs twice")
            seen.add(name)
            total += member.size
            if total > max_bytes:
                raise ArchiveError(f"{archive}: unpacks to more than {max_bytes} bytes")
            yield name, stream
        # tarfile stops at its end mark: only reading on to gzip's own end checks the checksum.
        while block := packed.read(CHUNK):
            if block.strip(b"\0"):
                raise ArchiveError(f"{archive}: has something behind its end")


@contextlib.contextmanager
def _whole(archive: Path) -> Iterator[None]:
    """Turn what damaged files and full disks raise into ArchiveError."""
    try:
        yield
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ArchiveError(f"{archive}: cannot be unpacked ({error})") from error


def _sha256(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := stream.read(CHUNK):
        digest.update(block)
    return digest.hexdigest()


def _open(content: Content) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
