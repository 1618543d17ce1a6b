"""Bring a version into a bucket, from a local folder or from another deployment: whole, or not at all."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from model_code.sentiment import probe
from model_code.sentiment.package import PackageError, check_config, collect
from operations.failure import CommandFailed
from operations.progress import moving
from operations.versions.store import Store, Version, make_manifest

REPORTS = ("metrics.json", "probe.json", "run.json", "loss_curve.png", "confusion_matrix.png")
"""What training leaves beside the model, and a folder from elsewhere may have."""
CREATED_BY = "torchlift versions publish"


def publish(store: Store, folder: Path, *, console: Console) -> tuple[str, bool]:
    """Make a version of a model's folder; returns it and whether it is new.

    :raises CommandFailed: the folder would not serve, or something else lies under its version
    """
    files = model_files(folder)
    version, raw = make_manifest(folder, files, created_by=CREATED_BY)
    if store.find(version) is not None:
        return version, False
    left_out = sorted(path.name for path in folder.iterdir() if path.name not in files)
    if left_out:
        console.print(f"Left out, no part of a model: {', '.join(left_out)}", markup=False, highlight=False)
    total = sum((folder / name).stat().st_size for name in files)
    with moving(console, f"Uploading {version}", total) as advance, _all_or_nothing(store, version):
        for name in files:
            store.upload(version, name, folder / name, advance)
        new = store.complete(version, raw)
    return version, new


def model_files(folder: Path) -> Sequence[str]:
    """The files of a model's folder that make a version. Raises CommandFailed when it would not serve."""
    if not folder.is_dir():
        raise CommandFailed(f"{folder} is no folder.")
    try:
        files = [name for name in collect(folder) if not name.startswith("code/")]
        probe.of_weights(folder, check_config(folder / "config.json"))
    except (PackageError, probe.ProbeError) as error:
        raise CommandFailed(f"{error}. A version is a folder with config.json, tokenizer and weights.") from None
    return sorted({*files, *(name for name in REPORTS if (folder / name).is_file())})


def promote(source: Store, target: Store, version: Version, *, console: Console) -> bool:
    """Copy a version from one deployment's bucket to another's; returns whether it is new there.

    The bytes pass through this machine: no single principal needs both accounts, and each file is compared with the
    SHA-256 of the manifest on the way. The target bucket encrypts with its own key.

    :raises CommandFailed: a file differs from the manifest, or the target has another version of that name
    """
    there = target.find(version.name)
    if there is not None:
        ours, theirs = (hashlib.sha256(item.raw).hexdigest() for item in (version, there))
        if ours != theirs:
            raise CommandFailed(
                f"{target.uri(version.name)} exists with another manifest (SHA-256 {theirs[:12]}…, not {ours[:12]}…)."
            )
        return False
    with (
        tempfile.TemporaryDirectory(prefix="torchlift-") as folder,
        moving(console, f"Copying {version.name}", 2 * version.bytes) as advance,
        _all_or_nothing(target, version.name),
    ):
        for name in version.files:
            local = Path(folder) / "file"
            source.download(version, name, local, advance)
            target.upload(version.name, name, local, advance)
            local.unlink()
        return target.complete(version.name, version.raw, origin=source.account.deployment)


@contextmanager
def _all_or_nothing(store: Store, version: str) -> Iterator[None]:
    """Start from an empty prefix, and leave an empty one when the work ends early, by Ctrl-C too."""
    store.clear(version)
    try:
        yield
    except BaseException:
        store.clear(version)
        raise
