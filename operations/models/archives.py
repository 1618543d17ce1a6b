"""A model's archive on this machine: made of a folder where need be, and checked for the endpoint that it is for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from model_code.archive import ArchiveError
from model_code.text_encoding import repository
from model_code.text_encoding.engine import Engine
from model_code.text_encoding.model_config import ConfigError
from model_code.text_encoding.repository import RepositoryError
from operations.failure import CommandFailed
from operations.models.store import MAX_BYTES
from settings.hardware import ML_TYPES

NO_TENSORRT = "none"
"""What engine.json says when ONNX Runtime serves on a CPU: the local run, which has no GPU."""


@contextmanager
def checked(
    name: str, *, archive: Path | None, folder: Path | None, own: Engine | None
) -> Iterator[tuple[Path, Engine]]:
    """The archive of model `name`, from either an archive or a folder, and its engine.

    :param own: the deployment's own engine: the new one must be for the same TensorRT and GPU
    :raises CommandFailed: the endpoint would not serve it; the text has every reason
    """
    if own is None:
        raise CommandFailed(
            "the deployment has no engine of its own to compare with (engine.json), so nothing tells which TensorRT "
            "and GPU serve. Deploy first."
        )
    with tempfile.TemporaryDirectory(prefix="torchlift-") as work:
        try:
            repository.check_name(name)
            path = repository.pack(Path(work) / f"{name}.tar.gz", folder) if folder else archive
            assert path is not None, "one of the two is required"
            engine = _checked(path, name, own)
        except (RepositoryError, ConfigError, ArchiveError, OSError) as error:
            raise CommandFailed(f"nothing was uploaded: {error}") from None
        if path.stat().st_size > MAX_BYTES:
            raise CommandFailed(f"nothing was uploaded: {path} is larger than {MAX_BYTES:,} bytes.")
        yield path, engine


def _checked(path: Path, name: str, own: Engine) -> Engine:
    if own.tensorrt == NO_TENSORRT:
        repository.check_for_cpu(path, name=name)
        return own
    return repository.check(
        path,
        name=name,
        tensorrt=own.tensorrt,
        compute_capability=own.compute_capability,
        gpu_memory=gpu_memory(own.gpu),
    )


def gpu_memory(gpu: str) -> int:
    """Memory of a GPU in bytes, by the name that its driver tells (`NVIDIA A10G`); 0 for one of no catalogue."""
    found = [one.gpu_memory_gib for one in ML_TYPES.values() if one.gpu_name and gpu.startswith(one.gpu_name)]
    return min(found, default=0) * 2**30
