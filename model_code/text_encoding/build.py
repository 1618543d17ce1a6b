"""From a model's folder to everything that an endpoint serves: one run, on a GPU of the endpoint's type.

    python -m model_code.text_encoding.build --device gpu --model FOLDER --output FOLDER --names encoder-0 encoder-1

Leaves in the output folder: archives/<name>.tar.gz, one a model; engine.json; export.json (parity with the original);
probe.json (what the endpoint must answer); tokenizer/; build.log; and sweep/ when asked. `--device cpu` makes the same
with ONNX Runtime in the engine's place, for the local run: no endpoint on AWS serves that, and nothing chooses it by
itself.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from model_code.archive import ArchiveError, content_sha256
from model_code.text_encoding import (
    build_engine,
    client,
    export_onnx,
    model_config,
    probe,
    repository,
    trtexec,
)
from model_code.text_encoding import engine as engines
from model_code.text_encoding.build_engine import BuildError
from model_code.text_encoding.client import EncodingError
from model_code.text_encoding.engine import Engine, EngineError, Shapes
from model_code.text_encoding.export_onnx import ExportError
from model_code.text_encoding.model_config import Config, ConfigError
from model_code.text_encoding.parity import ParityError
from model_code.text_encoding.repository import RepositoryError
from model_code.text_encoding.trtexec import TrtexecError

ARCHIVES = "archives"
TEXTS = "texts.txt"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "config.json")
"""The last two tell the padding token."""
MOST_TEXTS = 512
"""As many texts calibrate int8 well (TensorRT developer guide, calibration: some 500 samples)."""
NUMBERS = {
    "opt-batch": 16, "max-batch": 64, "min-length": 16, "opt-length": 128, "max-length": 512,
    "workspace-mib": 4096, "instances": 1, "minimum-driver": 0,
}  # fmt: skip
"""Options that are whole numbers; sizes of batches in texts, lengths in tokens."""
REPORTS = ("report.json", "report.md", "report.png")


def main(argv: list[str] | None = None) -> int:
    """Build; returns the exit status. What went wrong is one line on stderr."""
    options = _options(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="torchlift-") as work:
            _run(options, Path(work))
    except (ArchiveError, BuildError, ConfigError, EncodingError, EngineError, ExportError, ParityError,
            RepositoryError, TrtexecError, OSError, ValueError) as error:  # fmt: skip
        print(f"build: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace, work: Path) -> None:
    if options.device == "gpu":
        # What cannot work here is told before minutes of export.
        build_engine.machine_here(options.minimum_driver)
    names = options.names or repository.names(options.prefix, options.models)
    for name in names:
        repository.check_name(name)
    options.output.mkdir(parents=True, exist_ok=True)
    report = export_onnx.export(options.model, work)
    shutil.copyfile(work / "export.json", options.output / "export.json")
    if options.device == "gpu":
        engine, folder = _on_gpu(options, report, work)
    else:
        engine, folder = _on_cpu(options, report, work), work
    shutil.copyfile(folder / engines.FILE, options.output / engines.FILE)
    (options.output / probe.NAME).write_bytes(probe.encode(probe.make(options.model, work / "model.onnx", engine)))
    # Who asks the endpoint turns text into tokens with what the engine was built with.
    (options.output / "tokenizer").mkdir(exist_ok=True)
    for file in TOKENIZER:
        _keep(options.model / file, options.output / "tokenizer")
    archives = options.output / ARCHIVES
    for number, name in enumerate(names):
        config = model_config.make(
            name, engine, preferred=options.preferred, delay_us=round(options.queue_delay_ms * 1000),
            instances=options.instances,
        )  # fmt: skip
        written = _archive(options, archives, folder, config, show=number == 0)
        if number == 0:
            _check_room(archives, size=written.stat().st_size, count=len(names))
        print(f"{written.name}: {written.stat().st_size:,} bytes, sha256 {content_sha256(written)}", flush=True)


def _check_room(folder: Path, *, size: int, count: int) -> None:
    """Raise BuildError when `count` archives of `size` bytes do not fit, with the copy that publishing reads back."""
    needed, free = (2 * count - 1) * size, shutil.disk_usage(folder).free
    if needed > free:
        raise BuildError(
            f"{count} archives of {size:,} bytes, and as much again to read back what is published, need {needed:,} "
            f"bytes of disk: {free:,} are free; make fewer models, or root_volume_gib larger"
        )


def _archive(options: argparse.Namespace, archives: Path, folder: Path, config: Config, *, show: bool) -> Path:
    if options.device == "gpu":
        return repository.write(archives, folder, config)
    written, difference = repository.write_for_cpu(archives, folder / "model.onnx", config)
    if show:
        print(f"on a CPU each model is served with this change of its config:\n{difference}", flush=True)
    return written


def _on_gpu(options: argparse.Namespace, report: dict[str, Any], work: Path) -> tuple[Engine, Path]:
    """The engine, and the folder with model.plan and engine.json."""
    samples = _samples(options, report, work) if options.texts else None
    sizes = {
        "min": f"1x{options.min_length}",
        "opt": f"{options.opt_batch}x{options.opt_length}",
        "max": f"{options.max_batch}x{options.max_length}",
    }
    arguments = [f"--{name}={size}" for name, size in sizes.items()]
    arguments += [f"--onnx={work}", f"--workspace-mib={options.workspace_mib}"]
    arguments += [f"--minimum-driver={options.minimum_driver}"]
    if options.sweep:
        return _swept(options, arguments, samples, work)
    folder = work / "engine"
    parser = argparse.ArgumentParser()
    build_engine.add_options(parser)
    if options.precision == "int8":
        arguments += [f"--calibration={samples}"]
    asked = parser.parse_args([*arguments, f"--output={folder}"])
    build, export = build_engine.asked(asked, precision=options.precision, output=folder)
    try:
        return build_engine.run(build, export, minimum_driver=options.minimum_driver), folder
    finally:
        _keep(folder / "build.log", options.output)


def _swept(options: argparse.Namespace, arguments: list[str], samples: Path | None, work: Path) -> tuple[Engine, Path]:
    from model_code.text_encoding import sweep

    folder, kept = work / "sweep", options.output / "sweep"
    status = sweep.main(
        [*arguments, f"--output={folder}", f"--calibration={samples}", "--precisions", *trtexec.PRECISIONS]
    )
    kept.mkdir(parents=True, exist_ok=True)
    for name in REPORTS:
        _keep(folder / name, kept)
    own = folder / options.precision
    _keep(own / "build.log", options.output)
    if status != 0 or not (own / engines.FILE).is_file():
        raise BuildError(f"the sweep built no engine in {options.precision}, which the settings ask for")
    return engines.read(own / engines.FILE), own


def _on_cpu(options: argparse.Namespace, report: dict[str, Any], work: Path) -> Engine:
    """What engine.json says of no engine: the ONNX file itself answers, in float32."""
    described = Engine(
        tensorrt="none", cuda="none", compute_capability="none", gpu="CPU, by ONNX Runtime", driver="none",
        precision="fp32",
        shapes=Shapes(
            minimum=(1, options.min_length), optimum=(options.opt_batch, options.opt_length),
            maximum=(options.max_batch, options.max_length),
        ),
        inputs=engines.tensors(report["inputs"]), outputs=engines.tensors(report["outputs"]),
        onnx_sha256=report["onnx_sha256"], plan_sha256="", commands=(),
    )  # fmt: skip
    if options.max_length > report["max_sequence"]:
        raise BuildError(f"max length: {options.max_length} tokens, the model takes at most {report['max_sequence']}")
    described.write(work / engines.FILE)
    return described


def _samples(options: argparse.Namespace, report: dict[str, Any], work: Path) -> Path:
    """Tokens of the given texts, an array [texts, opt_length] for each input, as an .npz file."""
    path = options.texts / TEXTS
    texts = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()][:MOST_TEXTS]
    if not texts:
        raise BuildError(f"{path} holds no text")
    limits = client.Limits(
        max_batch=len(texts), max_sequence=options.opt_length, min_sequence=options.opt_length,
        inputs=tuple(report["inputs"]),
    )  # fmt: skip
    target = work / "samples.npz"
    arrays: dict[str, Any] = dict(client.tokenise(options.model, texts, limits=limits))
    np.savez(target, **arrays)
    return target


def _keep(path: Path, folder: Path) -> None:
    if path.is_file():
        shutil.copyfile(path, folder / path.name)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m model_code.text_encoding.build", description=__doc__)
    parser.add_argument("--device", required=True, choices=("gpu", "cpu"), help="gpu: an engine; cpu: the local run")
    parser.add_argument("--model", required=True, type=Path, help="folder with config.json, weights, tokenizer.json")
    parser.add_argument("--output", required=True, type=Path, help="folder for what is made")
    parser.add_argument("--names", nargs="+", help="the models' names")
    parser.add_argument("--prefix", default="encoder", help="without names: <prefix>-0, <prefix>-1, …")
    parser.add_argument("--models", type=int, default=1, help="without names: how many")
    parser.add_argument("--precision", default="fp16", choices=trtexec.PRECISIONS)
    parser.add_argument("--texts", type=Path, help=f"folder with {TEXTS}, a text a line: for int8 and the sweep")
    parser.add_argument("--sweep", action="store_true", help="build and compare all precisions")
    for name, default in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--preferred", type=int, nargs="*", default=[], help="batch sizes that Triton aims at")
    parser.add_argument("--queue-delay-ms", type=float, default=0.0, help="how long a request may wait for others")
    options = parser.parse_args(argv)
    if (options.sweep or options.precision == "int8") and options.texts is None:
        parser.error("--precision int8 and --sweep need --texts")
    return options


if __name__ == "__main__":
    sys.exit(main())
