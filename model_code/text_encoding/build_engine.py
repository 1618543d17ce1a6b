"""Build a TensorRT engine from an exported encoder by trtexec, on a GPU of the endpoint's type.

    python -m model_code.text_encoding.build_engine --onnx FOLDER --output FOLDER [--dry-run]

First says driver and GPU, then streams what trtexec prints (kept in build.log), and writes model.plan and, last,
engine.json with trtexec's own benchmark. `--dry-run` prints the commands, on any machine, and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from model_code.archive import content_sha256
from model_code.text_encoding import engine, trtexec
from model_code.text_encoding.trtexec import Build, TrtexecError

QUERY = ["nvidia-smi", "--query-gpu=driver_version,name,compute_cap", "--format=csv,noheader"]


class BuildError(RuntimeError):
    """An engine that cannot be built here; one sentence with the versions that matter."""


def main(argv: list[str] | None = None) -> int:
    """Build; returns the exit status. What went wrong is one line on stderr."""
    options = _options(argv)
    try:
        build, export = asked(options, precision=options.precision, output=options.output)
        if options.dry_run:
            _plan(build, options.tensorrt_major)
            return 0
        built = run(build, export, minimum_driver=options.minimum_driver)
    except (BuildError, TrtexecError, engine.EngineError, OSError, ValueError, KeyError) as error:
        print(f"build_engine: {error}", file=sys.stderr)
        return 2
    print(f"{build.plan}: TensorRT {built.tensorrt}, {built.gpu}, {built.measured['throughput_qps']} batches a second")
    return 0


def asked(options: argparse.Namespace, *, precision: str, output: Path) -> tuple[Build, dict[str, Any]]:
    """What `add_options` gave, as one build into the folder `output`, and the content of export.json.

    Raises BuildError, EngineError, OSError or ValueError.
    """
    export = json.loads((options.onnx / "export.json").read_text(encoding="utf-8"))
    build = Build(
        onnx=options.onnx / "model.onnx", plan=output / "model.plan",
        shapes=engine.Shapes(minimum=_size(options.min), optimum=_size(options.opt), maximum=_size(options.max)),
        inputs=list(export["inputs"]), precision=precision, workspace_mib=options.workspace_mib,
        calibration=options.calibration,
    )  # fmt: skip
    _check(build, export)
    return build, export


def run(build: Build, export: dict[str, Any], *, minimum_driver: int = 0) -> engine.Engine:
    """Build the engine; leaves model.plan, engine.json and build.log, or build.log alone. Raises BuildError."""
    machine = machine_here(minimum_driver)
    folder = build.plan.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name in (build.plan.name, engine.FILE):
        (folder / name).unlink(missing_ok=True)
    version = _tensorrt()
    print(f"TensorRT {version}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as work:
        inside = Build(**{**vars(build), "plan": Path(work) / build.plan.name})
        commands = trtexec.commands(inside, int(version.split(".")[0]))
        with (folder / "build.log").open("w", encoding="utf-8") as log:
            for command in commands:
                output = _stream(command, log, machine, version)
        if not inside.plan.is_file():
            raise BuildError(f"trtexec of TensorRT {version} ended with status 0 and wrote no plan")
        with inside.plan.open("rb") as file:
            written = engine.plan_version(file.read(28))
        if not engine.same_version(written, version):
            raise BuildError(f"the plan says TensorRT {written}, trtexec {version}")
        built = engine.Engine(
            tensorrt=version, cuda=_cuda(), driver=machine["driver"], precision=build.precision, shapes=build.shapes,
            inputs=engine.tensors(export["inputs"]), outputs=engine.tensors(export["outputs"]),
            onnx_sha256=content_sha256(build.onnx), plan_sha256=content_sha256(inside.plan),
            commands=tuple(tuple(part.replace(work, ".") for part in command) for command in commands),
            measured=trtexec.measured(output), **trtexec.device(output),
        )  # fmt: skip
        built.write(Path(work) / engine.FILE)
        inside.plan.replace(build.plan)
        (Path(work) / engine.FILE).replace(folder / engine.FILE)
    return built


def machine_here(minimum_driver: int) -> dict[str, str]:
    """Driver and GPU, said before anything else. Raises BuildError."""
    try:
        told = subprocess.run(QUERY, capture_output=True, text=True, timeout=60, check=True).stdout
        found = dict(trtexec.driver_and_gpu(told))
    except (OSError, subprocess.SubprocessError, TrtexecError) as error:
        raise BuildError(
            f"no NVIDIA GPU here ({error}): an engine is built on a GPU of the endpoint's type; --dry-run shows how"
        ) from error
    print(f"driver {found['driver']}, {found['gpu']}, compute capability {found['compute_capability']}", flush=True)
    if int(found["driver"].split(".")[0]) < minimum_driver:
        raise BuildError(f"driver {found['driver']} is too old: this image needs branch {minimum_driver} or newer")
    return found


def _tensorrt() -> str:
    """The version of the trtexec on PATH. Raises BuildError."""
    try:
        done = subprocess.run(["trtexec", "--help"], capture_output=True, text=True, timeout=120, check=False)
        return trtexec.version(done.stdout + done.stderr)
    except OSError as error:
        raise BuildError(f"no trtexec on PATH ({error}): run this in the image that has TensorRT") from error


def _stream(command: Sequence[str], log: IO[str], machine: dict[str, str], version: str) -> str:
    """Run one command; its output goes to stdout, to the log, and back to the caller. Raises BuildError."""
    log.write(f"$ {shlex.join(command)}\n")
    lines = []
    try:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", bufsize=1
        )
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error}") from error
    assert child.stdout is not None
    with child:
        for line in child.stdout:
            print(line, end="", flush=True)
            log.write(line)
            lines.append(line)
    if child.returncode != 0:
        errors = [line.strip() for line in lines if "[E]" in line or "Error" in line]
        said = errors[-1] if errors else (lines[-1].strip() if lines else "nothing")
        raise BuildError(
            f"{command[0] if command[0] == 'trtexec' else command[2]} ended with status {child.returncode} "
            f"(TensorRT {version}, driver {machine['driver']}, {machine['gpu']}): {said}"
        )
    return "".join(lines)


def _plan(build: Build, major: int | None) -> None:
    """Print what would run, for the TensorRT named or, without one, for the trtexec on PATH."""
    if major is None:
        if shutil.which("trtexec") is None:
            raise BuildError("no trtexec on PATH to tell the version: give --tensorrt-major 8, 9, 10 or 11")
        major = int(_tensorrt().split(".")[0])
    for command in trtexec.commands(build, major):
        print(shlex.join(command))


def _check(build: Build, export: dict[str, Any]) -> None:
    longest = int(export["max_sequence"])
    if build.shapes.maximum[1] > longest:
        raise BuildError(f"--max: {build.shapes.maximum[1]} tokens, the model takes at most {longest}")
    if content_sha256(build.onnx) != export["onnx_sha256"]:
        raise BuildError(f"{build.onnx} is not the file that export.json describes: export again")


def _size(text: str) -> tuple[int, int]:
    """`16x128` → (16, 128)."""
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise BuildError(f"'{text}': a shape is batch x sequence, such as 16x128")
    return int(match[1]), int(match[2])


def _cuda() -> str:
    """CUDA version of the image: NVIDIA's images set CUDA_VERSION."""
    return os.environ.get("CUDA_VERSION", "unknown")


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m model_code.text_encoding.build_engine", description="Build a TensorRT engine by trtexec."
    )
    add_options(parser)
    parser.add_argument("--precision", default="fp16", choices=trtexec.PRECISIONS)
    parser.add_argument("--dry-run", action="store_true", help="print the commands and stop")
    parser.add_argument("--tensorrt-major", type=int, help="with --dry-run: the TensorRT to print for")
    return parser.parse_args(argv)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every build, whatever its precision."""
    parser.add_argument("--onnx", required=True, type=Path, help="folder with model.onnx and export.json")
    parser.add_argument("--output", required=True, type=Path, help="folder for what is made")
    parser.add_argument("--min", default="1x16", help="smallest batch x sequence")
    parser.add_argument("--opt", default="16x128", help="batch x sequence that the engine is tuned for")
    parser.add_argument("--max", default="128x128", help="largest batch x sequence")
    parser.add_argument("--calibration", type=Path, help="for int8: .npz with an array for each input")
    parser.add_argument("--workspace-mib", type=int, default=4096, help="scratch memory of the build on the GPU")
    parser.add_argument("--minimum-driver", type=int, default=0, help="oldest driver branch that the image runs on")


if __name__ == "__main__":
    sys.exit(main())
