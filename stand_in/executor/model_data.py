"""Model data of a single-model container: fetched and unpacked, as SageMaker does before the container starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model_code.archive import ArchiveError, unpack
from stand_in.executor.servers import CannotServe, Container
from stand_in.executor.site import Site


def fetch(site: Site, region: str, container: Container, folder: Path) -> None:
    """Unpack the container's archive (s3://…/model.tar.gz) into the new `folder`. Raises CannotServe."""
    url = container.model_data_url
    if not url.startswith("s3://"):
        raise CannotServe(f"ModelDataUrl is '{url}': this container needs s3://…/model.tar.gz")
    bucket, _, key = url.removeprefix("s3://").partition("/")
    folder.parent.mkdir(parents=True, exist_ok=True)
    archive = folder.parent / "model.tar.gz"
    client: Any = site.client("s3", region, role=container.role)
    try:
        client.download_file(bucket, key, str(archive))
    except Exception as error:
        raise CannotServe(f"cannot download the model data {url}: {error}") from error
    try:
        unpack(archive, folder)
    except ArchiveError as error:
        raise CannotServe(f"cannot unpack the model data {url}: {error}") from error
    archive.unlink()
