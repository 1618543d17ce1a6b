"""Copy a base model and a data set from the Hugging Face hub, both at a pinned revision, into plain folders.

python -m model_code.hub_mirror --base-model hf://owner/name@revision --data hf://owner/name/config@revision \
    --output DIR

Writes DIR/base_model (the files that transformers reads) and DIR/data (text layout). Needs huggingface_hub
and datasets; training and serving then need no hub. Who made the defaults, and under which licence they come, is in
model_code/sentiment/LICENCES.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from model_code.sources import HubSource, SourceError, parse_hub

# Weights as safetensors, configuration and tokenizer; other frameworks' weights stay where they are.
MODEL_FILES = ("*.json", "*.txt", "*.model", "*.safetensors", "*.bin", "README.md", "LICENSE*")
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


class MirrorError(RuntimeError):
    """Something on the hub that is missing, closed or of another kind."""


def main(argv: list[str] | None = None) -> int:
    """Mirror; returns the exit status. What the user can put right is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m model_code.hub_mirror",
        description="Copy a base model and a data set from the Hugging Face hub at pinned revisions.",
    )
    parser.add_argument("--base-model", help="hf://owner/name@revision")
    parser.add_argument("--data", help="hf://owner/name[/config]@revision")
    parser.add_argument("--output", required=True, type=Path, help="folder for base_model/ and data/")
    options = parser.parse_args(argv)
    if not (options.base_model or options.data):
        parser.error("give --base-model, --data or both")
    try:
        if options.base_model:
            mirror_model(parse_hub(options.base_model), options.output / "base_model")
        if options.data:
            mirror_data(parse_hub(options.data), options.output / "data")
    except (MirrorError, SourceError, ValueError) as error:
        print(f"hub_mirror: {error}", file=sys.stderr)
        return 2
    return 0


def mirror_model(source: HubSource, target: Path) -> None:
    """Copy the model's files to `target`; it is whole or absent. Raises MirrorError."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        snapshot = Path(
            huggingface_hub.snapshot_download(source.name, revision=source.revision, allow_patterns=list(MODEL_FILES))
        )
    except RevisionNotFoundError:
        raise MirrorError(f"the model {source.name} has no revision {source.revision}") from None
    except RepositoryNotFoundError:
        raise MirrorError(f"there is no model {source.name} on the hub, or it is not public") from None
    except (HfHubHTTPError, OSError) as error:
        raise MirrorError(f"the model {source.name} cannot be fetched: {error}") from error
    weights = [name for name in WEIGHTS if (snapshot / name).is_file()]
    if not weights or not (snapshot / "config.json").is_file():
        raise MirrorError(f"the model {source.name} has no config.json with PyTorch weights beside it")
    # Where safetensors exist the pickled copy is left out: it is as large and less safe.
    skip = shutil.ignore_patterns("*.bin", "*.bin.index.json") if "safetensors" in weights[0] else None
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(snapshot, partial, ignore=skip)  # follows the cache's links: a bucket knows none
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    print(f"{source.name}@{source.revision}: {len(list(target.iterdir()))} files in {target}")


def mirror_data(source: HubSource, target: Path) -> None:
    """Write the data set to `target` in the text layout; whole or absent. Raises DataError."""
    from model_code.sentiment import data

    loaded = data.read_hub(source)
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    data.write_layout(loaded, partial)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    sizes = ", ".join(f"{name} {len(split)}" for name, split in loaded.splits.items())
    print(f"{source.name}@{source.revision}: {sizes} in {target}")


if __name__ == "__main__":
    sys.exit(main())
